"""`python -m umi_common.cli` runs the command `umi`."""

from umi_common.cli import main

if __name__ == "__main__":
    main()
