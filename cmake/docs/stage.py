#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lays out the sources of the site: the repository's pages under their names in the site, with links to each other; one page
per header, folder and program, which conf.py's extension fills.

    stage.py <repository> <output folder>
"""
import os
import re
import shutil
import sys
from pathlib import Path

# Pages of the repository, in the order of the site's contents: page of the site, and its title there.
PARTS = {
    "Start": {
        "README.md": ("overview", "Overview"),
        "cmake/README.md": ("install", "Install"),
        "cmake/packaging/README.md": ("packaging", "Packages"),
    },
    "Guide": {
        "examples/guide/README.md": ("guide/index", "All pages"),
        "examples/guide/tensors.md": ("guide/tensors", "Tensors, positions, threads, errors"),
        "examples/guide/rotation.md": ("guide/rotation", "Rotation"),
        "examples/guide/attention.md": ("guide/attention", "Attention"),
        "examples/guide/cache.md": ("guide/cache", "Attention with a cache"),
        "examples/guide/vision.md": ("guide/vision", "Vision and video"),
        "examples/guide/model_files.md": ("guide/model_files", "Model files"),
        "examples/guide/compatibility.md": ("guide/compatibility", "Compatibility"),
        "examples/guide/engine.md": ("guide/engine", "RoPE in an engine of your own"),
        "examples/guide/ports.md": ("guide/ports", "From PyTorch, llama.cpp or MLX"),
        "examples/guide/symptoms.md": ("guide/symptoms", "From symptom to fix"),
        "examples/guide/training.md": ("guide/training", "Training"),
        "examples/guide/extending.md": ("guide/extending", "Your own bias, rule or rotation"),
        "examples/guide/guarantees.md": ("guide/guarantees", "Bits, threads and accuracy"),
        "examples/guide/headers.md": ("guide/headers", "Headers"),
    },
    "Programs": {
        "examples/README.md": ("programs/index", "Examples"),
        "examples/train_short_test_long/README.md": ("programs/train_short_test_long", "Train short, test long"),
        "examples/ring_attention/README.md": ("programs/ring_attention", "Ring attention"),
        "examples/c_abi/README.md": ("programs/c_abi", "From C"),
        "examples/python/README.md": ("programs/python", "From Python"),
        "examples/playground/README.md": ("programs/playground", "The playground"),
    },
    "Design": {
        "include/posenc/README.md": ("design/index", "How posenc is built"),
        "include/posenc/glossary.md": ("design/glossary", "Glossary"),
        "include/posenc/frequency/README.md": ("design/frequency", "Frequency rules"),
        "include/posenc/kernels/README.md": ("design/kernels", "Kernels"),
        "include/posenc/rotary/README.md": ("design/rotary", "Rotation"),
        "include/posenc/attention/README.md": ("design/attention", "Attention"),
        "include/posenc/kv/README.md": ("design/kv", "KV cache"),
        "include/posenc/nn/README.md": ("design/nn", "Multi-head module"),
        "include/posenc/interop/README.md": ("design/interop", "Model files"),
    },
    "Project": {
        "CHANGELOG.md": ("changelog", "Changelog"),
        "CONTRIBUTING.md": ("contributing", "Contributing"),
        "tests/README.md": ("tests", "Tests"),
        "tests/REPORT.md": ("report", "How well the tests find faults"),
        "tests/report/README.md": ("tests_report", "How the report is made"),
        "tests/mutation/README.md": ("tests_mutation", "Mutation score"),
        "tests/proofs/README.md": ("tests_proofs", "Proofs"),
        "tests/oracles/llama_cpp/README.md": ("tests_oracles_llama_cpp", "Recordings of llama.cpp"),
        "tests/oracles/transformers/README.md": ("tests_oracles_transformers", "Recordings of transformers"),
        "bench/README.md": ("benchmarks", "Benchmarks"),
        "findings/README.md": ("findings", "Surprises of other packages"),
        "cmake/docs/README.md": ("site", "This site"),
        ".github/SECURITY.md": ("security", "Security"),
    },
}
PAGES = {path: page for pages in PARTS.values() for path, (page, _) in pages.items()}
INTERNAL = "kernels/"  # a folder whose names are all in namespace detail
# A fenced block, a link, or inline code, in which links are text.
MARKUP = re.compile(r"^ *```.*?^ *```|\[(?:`[^`]*`|[^\[\]`])*\]\((?P<link>[^()\s]+)\)|`[^`]*`", re.M | re.S)


class Stage:
    def __init__(self, repository, output):
        self.repository = repository
        self.output = output
        self.programs = {}  # path in the repository -> page
        self.kept = set()

    def write(self, page, text, suffix):
        """Writes a page if it has changed, so that Sphinx reads only what has."""
        file = self.output / (page + suffix)
        self.kept.add(file)
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)

    def target(self, path, link):
        """Returns the page that a link of a page of the repository leads to, and its anchor."""
        file, _, anchor = link.partition("#")
        if not file:
            return None
        file = os.path.normpath(os.path.join(os.path.dirname(path), file))
        if file in PAGES:
            return PAGES[file], ".md", anchor
        if file.endswith((".png", ".svg")):
            page, suffix = "pictures/" + re.sub(r"/", "_", file[:-4]), file[-4:]
            (self.output / "pictures").mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.repository / file, self.output / (page + suffix))
            return page, suffix, ""
        header = re.fullmatch(r"include/posenc/((?!kernels/)(?:(?!detail/).)*)\.hpp", file)
        if header:
            return "reference/" + header[1], ".rst", ""
        folder = re.fullmatch(r"include/posenc/(\w+)", file)
        if folder:
            return f"reference/{folder[1]}/index", ".rst", ""
        if file.endswith((".cpp", ".hpp", ".sh", ".py", ".txt", ".tsv", ".yml")) or "." not in file.rsplit("/", 1)[-1]:
            return self.programs.setdefault(file, "programs/" + re.sub(r"[/.]", "_", file)), ".rst", ""
        sys.exit(f"{path}: the site has no page for {link}; see PARTS of cmake/docs/stage.py")

    def rewritten(self, path, page, text):
        """Returns a page whose relative links lead to pages of the site."""

        def replaced(match):
            link = match["link"]
            target = None if not link or re.match(r"[a-z]+:", link) else self.target(path, link)
            if target is None:
                return match[0]
            to, suffix, anchor = target
            relative = os.path.relpath(to + suffix, os.path.dirname(page) or ".")
            return match[0].removesuffix(f"{link})") + relative + (f"#{anchor}" if anchor else "") + ")"

        return MARKUP.sub(replaced, text)

    def pages(self):
        for path, page in PAGES.items():
            self.write(page, self.rewritten(path, page, (self.repository / path).read_text()), ".md")

    def program_pages(self):
        for path, page in sorted(self.programs.items()):
            title = Path(path).name
            code = (self.repository / path).read_text().replace("\n", "\n   ").rstrip()
            languages = {".sh": "bash", ".py": "python", ".cpp": "cpp", ".hpp": "cpp", ".yml": "yaml"}
            language = languages.get(Path(path).suffix, "text")
            language = "cmake" if title == "CMakeLists.txt" else language
            text = f":orphan:\n\n{title}\n{'=' * len(title)}\n\n``{path}``\n\n.. code-block:: {language}\n\n   {code}\n"
            self.write(page, text, ".rst")

    def folders(self):
        """Returns the rows of the table of folders: folder or file -> its text."""
        text = (self.repository / "include/posenc/README.md").read_text()
        table = re.search(r"^\| folder \|.*\n\|[-| ]+\n((?:\|.*\n)+)", text, re.M)[1]
        return {r[0].rstrip("/"): r[1] for r in re.findall(r"^\| \[?`([^`]+)`\S* \| (.*?) \|", table, re.M)}

    def reference(self):
        include = self.repository / "include/posenc"
        headers = sorted(str(p.relative_to(include)) for p in include.rglob("*.hpp") if "detail" not in p.parts)
        headers = [h for h in headers if not h.startswith(INTERNAL)]
        headers_of_folder = {}
        for header in headers:
            headers_of_folder.setdefault(os.path.dirname(header), []).append(header)
            self.write("reference/" + header.removesuffix(".hpp"),
                       f"{header}\n{'=' * len(header)}\n\n.. posenc-header:: {header}\n", ".rst")
        folders = []
        for folder, text in self.folders().items():
            if folder not in headers_of_folder:
                continue
            folders.append(folder)
            page = f"reference/{folder}/index"
            design = PAGES.get(f"include/posenc/{folder}/README.md")
            # The table's text is Markdown; its code spans have two marks in reStructuredText.
            lines = [folder, "=" * len(folder), "", text.replace("`", "``").rstrip(".") + ".", ""]
            if design:
                lines += [f":doc:`How it works inside </{design}>`", ""]
            lines += [f".. posenc-folder:: {folder}", "", ".. toctree::", "   :hidden:", ""]
            lines += [f"   {os.path.basename(h)} <{os.path.basename(h).removesuffix('.hpp')}>" for h in headers_of_folder[folder]]
            self.write(page, "\n".join(lines) + "\n", ".rst")
        for folder in set(headers_of_folder) - set(folders) - {""}:
            sys.exit(f"include/posenc/README.md has no row for {folder}/ in its table of folders")
        table = "\n".join(f"   * - :doc:`{r}/ <{r}/index>`\n     - {self.folders()[r].replace('`', '``')}" for r in folders)
        top = "\n".join(f"   {h.removesuffix('.hpp')}" for h in headers_of_folder[""])
        listed = "\n".join(f"   {r}/index" for r in folders)
        title = "Headers by folder"
        self.write("reference/index", f"""{title}
{"=" * len(title)}

The folders of ``include/posenc``. Every header has a page with all its public names; namespace ``detail`` and the
folders of that name are left out.

.. list-table::
   :widths: 20 80
   :class: folders

{table}

Headers outside of these folders:

.. posenc-folder:: .

.. toctree::
   :hidden:

{top}
{listed}
""", ".rst")
        self.write("reference/names", "All names\n=========\n\nNames of namespace ``posenc`` and of the namespaces in it.\n\n"
                   ".. posenc-names::\n", ".rst")

    def start(self):
        readme = (self.repository / "README.md").read_text()
        program, output = re.search(r"```cpp\n(.*?)```\n\n```text\n(.*?)```", readme, re.S).groups()
        program = program.replace("// SPDX-License-Identifier: MIT\n", "")
        text = (self.repository / "cmake/docs/start.md").read_text()
        for name, value in (("program", program), ("output", output)):
            text = text.replace(f"@{name}@\n", value)
        contents = []
        for part, pages in PARTS.items():
            if part == "Design":
                contents.append(("Reference", ["reference/index", "reference/names"]))
            contents.append((part, [f"{title} <{page}>" for page, title in pages.values()]))
        for part, pages in contents:
            text += f"\n```{{toctree}}\n:hidden:\n:caption: {part}\n\n" + "\n".join(pages) + "\n```\n"
        self.write("index", text, ".md")

    def remove_others(self):
        for file in list(self.output.rglob("*.md")) + list(self.output.rglob("*.rst")):
            if file not in self.kept:
                file.unlink()


def main(repository, output):
    stage = Stage(repository, output)
    stage.pages()
    stage.program_pages()
    stage.reference()
    stage.start()
    stage.remove_others()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
