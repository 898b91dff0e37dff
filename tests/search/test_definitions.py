"""A question about an option, a setting or a function finds the text that describes it, before those that use it."""

from __future__ import annotations

import pytest

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.search.reorder.names import names_defined, program_names_in, words_defined

MANUAL = {
    "synopsis": "git grep - search in files\n\nSYNOPSIS\ngit grep [-a | --text] [--heading] [--break]\n"
    "    [--break | --no-break] [-C <num>] [--no-index] [<pathspec>...]\n\nDESCRIPTION\nLook for patterns in files.",
    "use": "An alias saves time: git config alias.g 'grep --break --heading' stores it in the configuration, and git g"
    " is then the command with its options.",
    "described": "files of any kind, unless ignored.\n\n--heading\n    Show the name of a file above its matches."
    "\n\n--break\n    Print an empty line between matches from different files.\n\n-C NUM, --context=NUM\n"
    "    Show leading and trailing lines of each match that git grep finds.",
    "index": "--no-index\n    Search files that are not managed, as a plain grep would do in any directory.",
    "ignored": "Files named in .gitignore are searched, too. The gitignore mechanism is useful with --no-index in any\n"
    "directory, where a search would find binary files.",
}
SETTINGS = {
    "intro": "Memory is set in the file of settings. With more work_mem a sort needs no temporary file on the disk.",
    "defined": "by each connection.\n\nwork_mem (integer)\n\nSets the largest memory of a sort or a hash table.",
    "hint": "If a query is slow, look at its plan, raise work_mem for this session, and run the query again.",
    "code": "def main():\n    pool = get_pool(5)\n    if pool.size < 5:\n        return None\n    return pool.first()",
    "function": "class Pools:\n    size = 4\n\n    def get_pool(self, number):\n        return self.pools[number]",
    "exists": "Deprecated.\n\n### `fs.exists(path, callback)`\n\nTests whether the path exists.",
    "race": "Do not call fs.exists before fs.open: another process may change the file, which is a race.",
}
OTHERS = [f"git {verb}, like git grep, reads the index. See git help {verb}." for verb in ("add", "log", "mv", "rm")]


@pytest.fixture(scope="module")
def umi():
    with HybridStore.open() as store:
        store.add([Chunk(name, text, source="git-grep.txt") for name, text in MANUAL.items()])
        store.add([Chunk(name, text) for name, text in SETTINGS.items()])
        store.add([Chunk(f"other {n}", text) for n, text in enumerate(OTHERS)])
        yield DualRetriever(store)


@pytest.mark.parametrize(
    ("question", "right"),
    [
        ("what does --break of git grep do", "described"),
        ("git grep --break meaning", "described"),
        ("git grep --context", "described"),
        ("git grep --no-index", "index"),
        ("what is work_mem", "defined"),
        ("get_pool", "function"),
        ("what does fs.exists do?", "exists"),
    ],
)
def test_the_text_that_describes_a_name_comes_before_those_that_use_it(umi, question, right):
    assert umi.search(question).ids[0] == right


@pytest.mark.parametrize(
    ("question", "right"),
    [
        ("--no-index with the gitignore mechanism", "ignored"),
        ("--break in the configuration as an alias", "use"),
        ("fs.exists before fs.open a race?", "race"),
    ],
)
def test_a_text_on_the_other_words_of_the_question_comes_before_the_description(umi, question, right):
    assert umi.search(question).ids[0] == right


def test_a_command_of_the_query_is_found_before_its_last_words():
    texts = ["Unpack the archive:\n\n    tar -xzf billing.tar.gz\n\nThen start the service.", "-xzf billing.tar.gz"]
    others = [
        "gzip -d billing.tar.gz",
        "Billing makes billing.tar.gz at night.",
        "tar -tzf orders.tar.gz",
        "The roof leaks.",
    ]
    with HybridStore.open() as store:
        store.add([Chunk(text, text) for text in (*texts, *others)])
        assert DualRetriever(store).search("show me tar -xzf billing.tar.gz").ids[:2] == texts


@pytest.mark.parametrize(
    "question",
    ["shelves.remove", "what does shelves.remove return?", "def remove", "how does shelves.remove() work?"],
)
def test_a_function_named_with_its_module_is_found_where_it_is_defined(question):
    functions = {
        "right": "shelves.py\ndef remove(row, *, force=False):\n    return row.pop(force)",
        "call": "cellar.py\ndef _remove(bottle):\n    for each in bottle.labels:\n        shelves.remove(each)",
        "inner": "shelves.py\ndef _remove_inner(row):\n    remove(row)\n    log(remove)",
    }
    verbs = ("add", "sort", "count", "label", "open", "close", "move", "sell", "weigh", "paint", "rent", "clean")
    functions |= {verb: f"shelves.py\ndef {verb}(row, bottle):\n    return row.{verb}(bottle)" for verb in verbs}
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(name, text) for name, text in functions.items()])
        assert umi.search(question).ids[0] == "right"


@pytest.mark.parametrize(
    ("query", "right"),
    [
        ("DATABASE_URL", "DATABASE_URL: address of the database, such as postgres://host/name. Required."),
        ("what is max_retries?", "max_retries: number of retries of a call, default 3."),
        ("config.yaml", "config.yaml\nthe settings of the server"),
        ("what does fs.exists do?", "### `fs.exists(path, callback)`\n\nTests whether the path exists."),
        ("fn key stuck", "The fn key locks when you press Esc with it; the lock light turns on."),
    ],
)
def test_a_setting_is_not_hidden_by_a_shell_that_exports_it_nor_a_name_by_prose_or_code_with_a_keyword(query, right):
    texts = [
        right,
        "Quick start\n\nexport DATABASE_URL=postgres://localhost/app\nmake run",
        "Deploy\n\nexport DATABASE_URL=postgres://db/app\nsystemctl restart app",
        "Changes\n\nfunction max_retries was renamed\nclass Foo",
        "x = Client(max_retries=4)",
        "See config.yaml for options",
        "class yaml for parsing",
        "polyfill.js\nfunction exists(path) { return fs.exists(path) }",
        "key\nA key opens a door. Keep the key safe.",
        "Key fobs are at the desk.",
    ]
    others = ["Bread is in the kitchen.", "The bus leaves at 9.", "Tom likes chess.", "We saw a film about whales."]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(text, text) for text in (*texts, *others)])
        assert umi.search(query).ids[0] == right


@pytest.mark.parametrize(
    ("line", "name", "defines"),
    [
        ("-C NUM, -NUM, --context=NUM", "--context", True),
        ("       -h, --human-readable  with -l, print sizes", "-l", False),
        ("-F <file>::", "-F", True),
        ("-f, --force", "--force", True),
        ("* `--no-warnings`: silences them", "--no-warnings", True),
        ("[--quiet] [--force]", "--quiet", False),
        ("{-x|--extract}", "--extract", False),
        ("core.editor::", "core.editor", True),
        ("set core.editor first", "core.editor", False),
        ("pub fn read_line(&self)", "read_line", True),
        ("if read_line(x):", "read_line", False),
        ("-xzf billing.tar.gz", "billing.tar.gz", False),
        ("- `fs.exists`: whether it is there", "fs.exists", True),
        ("    async def exists(path):", "fs.exists", True),
        ("def exists_now(path):", "fs.exists", False),
        ("def _exists(path):", "fs.exists", False),
        ("def exists(path):", "def exists", True),
    ],
)
def test_a_line_defines_the_name_with_which_it_begins(line, name, defines):
    names = program_names_in(name)
    assert names_defined(["Some text\n" + line, "of another"], names)[:, 0].tolist() == [float(defines), 0.0]


@pytest.mark.parametrize(
    ("query", "option"),
    [
        ("what is --force?", "--force"),
        ("use `--force`", "--force"),
        ("quiet (-q)", "-q"),
        ("--max-len=5", "--max-len"),
        ("what does [--force] do", "--force"),
        ("what is **--force**?", "--force"),
        ("what is \u201c--force\u201d?", "--force"),
    ],
)
def test_an_option_is_found_with_the_signs_that_a_sentence_puts_around_it(query, option):
    (name,) = program_names_in(query)
    assert name.search(f"  {option}  does it")


def test_a_name_that_is_too_long_is_not_looked_up():
    assert program_names_in("what is " + "a_" * 60 + "z?") == []


CODE = {
    "tree": "return names\n\ndef copy_tree(src, dst, symlinks=False):\n    os.makedirs(dst)",
    "ignore": "The argument of copy_tree() is a function that copy_tree calls with the files of copy_tree.",
    "session": "class HttpSession:\n    def __init__(self):\n        self.cookies = {}",
    "use": "with HttpSession() as session:  # an HttpSession has cookies, two HttpSession have none in common",
    "walk": "export async function walkFolder<T>(folder: string, call: (file: T) => void) {",
    "walks": "await walkFolder(home); // walkFolder(root) as walkFolder takes too long",
    "trip": "class trip: we go to Ulm in May",
    "cost": "The trip to Ulm, a trip by train, costs 20 euros for each class.",
}


@pytest.mark.parametrize(
    ("question", "right"),
    [
        ("copytree", "tree"),
        ("what does copytree do?", "tree"),
        ("copytree arguments", "tree"),
        ("httpsession", "session"),
        ("how to use httpsession", "session"),
        ("walkfolder", "walk"),
        ("trip to Ulm cost", "cost"),
    ],
)
def test_the_code_that_defines_a_name_comes_first_also_if_it_is_typed_in_small_letters(question, right):
    with HybridStore.open() as store:
        store.add([Chunk(name, text) for name, text in CODE.items()])
        store.add([Chunk(f"o{n}", f"def other{n}(number):\n    return number + {n}") for n in range(60)])
        assert DualRetriever(store).search(question).ids[0] == right


def test_a_method_of_many_classes_is_the_entry_of_none():
    texts = [f"class Part{n}:\n    def close(self):\n        self.part{n}.stop()" for n in range(5)]
    assert not words_defined(texts, ["close"]).any()
    assert [words_defined(texts[:3], [name]).ravel().tolist() for name in ("close", "part1", "stop")] == [
        [1, 1, 1],
        [0, 1, 0],
        [0, 0, 0],
    ]


def test_only_a_name_of_several_words_is_the_entry_of_a_query_of_several_words():
    names = ("json", "to_json", "toJson", "to_j", "_json", "JSON")
    texts = [f"def {name}(value):\n    return value" for name in names]
    assert words_defined(texts, ["tojson", "json"]).tolist() == [[0, 0], [1, 0], [1, 0], [0, 0], [0, 0], [0, 0]]
