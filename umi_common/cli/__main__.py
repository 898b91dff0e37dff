"""`python -m umi_common.cli` is `umi`."""

from umi_common.cli import main

if __name__ == "__main__":
    main()
