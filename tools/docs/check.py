"""Opens every page of a built site in headless Chromium, and says what is wrong.

No console error, nothing asked of another host, no dead link inside the site, a search
that finds, and pages that a phone 390 pixels wide shows without scrolling sideways, in
letters that can be read. Links to other sites are listed, not fetched.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}

#: What is searched for, and a page that must be among the results.
SEARCHES = {
    "DiscreteLaplace": "api/fastdp.DiscreteLaplace",
    "sparse vector threshold": "proofs/sparse_vector",
    "neighboring relation": "api/",
    "histogram clinic": "",
}
NOTHING = "qwertzuiopasdf"

#: Pages whose pictures `--screenshots` keeps, at both widths.
SHOWN = (
    *("index", "tutorial", "which", "api/fastdp.DiscreteLaplace", "gallery/index"),
    *("proofs/discrete_laplace", "guides", "local", "changelog", "how-to"),
)

#: Smallest letters of running text, in pixels.
LEAST = 14.0

_FACTS = """() => {
  const links = [...document.querySelectorAll('a[href]')].map(a => a.href);
  const shown = [...document.querySelectorAll('img')];
  const broken = shown.filter(
    i => i.complete && !i.naturalWidth && i.loading != 'lazy');
  return {
    links: links,
    ids: [...document.querySelectorAll('[id]')].map(e => e.id),
    broken: broken.map(i => i.src),
  };
}"""

_PHONE = """() => {
  const text = [...document.querySelectorAll('article p, article li, article td')];
  const sizes = text.filter(e => e.offsetParent && e.innerText.trim())
    .map(e => parseFloat(getComputedStyle(e).fontSize));
  const wide = [...document.querySelectorAll('article *')].filter(e => {
    const box = e.getBoundingClientRect();
    return box.width && box.right > innerWidth + 1;
  }).slice(0, 3).map(e => e.tagName + '.' + e.className);
  return {
    width: document.documentElement.scrollWidth,
    least: Math.min(99, ...sizes),
    wide: wide,
  };
}"""


@dataclass
class Findings:
    """What was seen on the way."""

    problems: list[str] = field(default_factory=list)
    links: dict[str, set[str]] = field(default_factory=dict)
    ids: dict[str, set[str]] = field(default_factory=dict)

    def dead(self, origin: str) -> Iterator[str]:
        """Yield each link inside the site that leads nowhere."""
        for url, sources in sorted(self.links.items()):
            path, fragment = urldefrag(url)
            if not url.startswith(origin) or path not in self.ids:
                continue
            if fragment and unquote(fragment) not in self.ids[path]:
                yield f"{min(sources)}: no {fragment} in {path.removeprefix(origin)}"


def main(
    site: Path,
    screenshots: Path | None = None,
    searches: Mapping[str, str] = MappingProxyType(SEARCHES),
) -> int:
    """Check a built site; print what is wrong, and return 0 if nothing is."""
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        print("chromium: skipped, not here")
        return 0
    from playwright.sync_api import sync_playwright

    found = Findings()
    with serving(site) as origin, sync_playwright() as playwright:
        options = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        options += ["--no-sandbox"] * (os.geteuid() == 0)
        browser = playwright.chromium.launch(executable_path=executable, args=options)
        names = sorted(p.relative_to(site).as_posix() for p in site.rglob("*.html"))
        names = [name for name in names if not name.startswith("_")]
        page = browser.new_page(viewport=DESKTOP)
        watch(page, origin, found)
        for name in names:
            visit(page, origin, name, found)
            if screenshots is not None and name.removesuffix(".html") in SHOWN:
                keep(page, name, screenshots)
        if searches:
            search(page, origin, searches, found)
        browser.close()
        check_links(site, origin, found)
    outside = sorted(url for url in found.links if not url.startswith(origin))
    for url in outside:
        print(f"not fetched: {url}")
    for problem in found.problems:
        print(problem)
    print(
        f"{len(names)} pages, {len(found.links)} links, {len(found.problems)} problems"
    )
    return int(bool(found.problems))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # one connection for many files

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def end_headers(self) -> None:
        """Let the browser keep scripts and fonts."""
        self.send_header("Cache-Control", "max-age=3600")
        super().end_headers()

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send a file; a browser that has left is no error."""
        with contextlib.suppress(ConnectionError):
            super().copyfile(source, outputfile)


@contextlib.contextmanager
def serving(site: Path) -> Iterator[str]:
    """Serve a folder on this machine, and hand over where."""
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def watch(page: Any, origin: str, found: Findings) -> None:
    """Note what the browser complains of, missing files included, and other hosts."""

    def console(message: Any) -> None:
        if message.type in ("error", "warning"):
            found.problems.append(f"{page.url}: {message.type}: {message.text}")

    def request(request: Any) -> None:
        if not request.url.startswith((origin, "data:")):
            found.problems.append(f"{page.url}: asks for {request.url}")

    page.on("request", request)
    page.on("console", console)
    page.on("pageerror", lambda error: found.problems.append(f"{page.url}: {error}"))


def visit(page: Any, origin: str, name: str, found: Findings) -> None:
    """Open a page at both widths, and note its links and faults."""
    page.set_viewport_size(DESKTOP)
    page.goto(origin + name)
    facts = page.evaluate(_FACTS)
    found.ids[origin + name] = set(facts["ids"])
    for link in facts["links"]:
        found.links.setdefault(link, set()).add(name)
    found.problems += [f"{name}: no picture {url}" for url in facts["broken"]]
    page.set_viewport_size(PHONE)
    phone = page.evaluate(_PHONE)
    if phone["width"] > PHONE["width"]:
        found.problems.append(f"{name}: {phone['width']} pixels wide, {phone['wide']}")
    if phone["least"] < LEAST:
        found.problems.append(f"{name}: letters of {phone['least']} pixels")


def keep(page: Any, name: str, folder: Path) -> None:
    """Keep pictures of a page at both widths."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = name.removesuffix(".html").replace("/", "-")
    for kind, size in (("phone", PHONE), ("desktop", DESKTOP)):
        page.set_viewport_size(size)
        page.screenshot(path=folder / f"{stem}-{kind}.png")


def search(
    page: Any, origin: str, searches: Mapping[str, str], found: Findings
) -> None:
    """Search, as the field at the top of each page does."""
    page.set_viewport_size(DESKTOP)
    for query, wanted in searches.items():
        page.goto(f"{origin}search.html?q={query}")
        try:
            page.wait_for_selector("ul.search li a", timeout=10_000)
        except Exception:
            found.problems.append(f"search: nothing for {query}")
            continue
        hits = page.evaluate(
            "[...document.querySelectorAll('ul.search li a')].map(a => a.href)"
        )
        if not any(urlsplit(hit).path.startswith(f"/{wanted}") for hit in hits):
            found.problems.append(f"search: {query} does not find {wanted}")
    page.goto(f"{origin}search.html?q={NOTHING}")
    page.wait_for_timeout(500)
    if page.query_selector("ul.search li a"):
        found.problems.append(f"search: something for {NOTHING}")


def check_links(site: Path, origin: str, found: Findings) -> None:
    """Note each link inside the site that leads to no file, or to no place in it."""
    for url, sources in sorted(found.links.items()):
        path = urldefrag(url)[0]
        if path.startswith(origin):
            file = unquote(urlsplit(path).path).lstrip("/") or "index.html"
            if not (site / file).is_file():
                found.problems.append(f"{min(sources)}: no {file}")
    found.problems += found.dead(origin)
