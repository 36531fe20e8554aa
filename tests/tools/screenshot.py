"""Takes pictures of an HTML page in a headless Chromium, wide and narrow, light and dark. Any output on the page's
console is an error.

    python3 tests/tools/screenshot.py report.html FOLDER
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTHS = {"wide": 1400, "narrow": 420}
HEIGHT = 9000  # pixels, enough for all open parts
SCHEMES = {"light": 1, "dark": 0}  # numbers that blink uses


def take(browser, page, picture, width, scheme):
    """Writes a picture. Returns the lines that the page has written to its console."""
    with tempfile.TemporaryDirectory() as profile:
        process = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
             f"--user-data-dir={profile}", f"--blink-settings=preferredColorScheme={scheme}",
             f"--window-size={width},{HEIGHT}", f"--screenshot={picture}", page.resolve().as_uri()],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, timeout=120, text=True, errors="replace")
    if not picture.exists():
        sys.exit(f"{browser} took no picture:\n{process.stderr}")
    return [line for line in process.stderr.splitlines() if ":CONSOLE" in line]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        print("skipped: no Chromium")
        return 0
    page, folder = map(pathlib.Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    complaints = []
    for size, width in WIDTHS.items():
        for name, scheme in SCHEMES.items():
            picture = folder / f"{page.stem}-{size}-{name}.png"
            complaints += take(browser, page, picture, width, scheme)
            print(picture)
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
