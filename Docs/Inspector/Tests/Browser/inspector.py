"""What a person sees: the inspector's pages in a real browser, of a demo server of its own.

Usage: inspector.py <the demo's binary> [<a directory for pictures>]
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

PORT = 8098
SERVER = f"http://127.0.0.1:{PORT}"
PAGE = f"{SERVER}/inspect"

# The contrast of each text with what is behind it, where it is too little (WCAG 2.2, 1.4.3).
CONTRAST = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const parse = color => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = color;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
};
const light = ([r, g, b]) => {
  const part = value => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
};
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node; (node = walker.nextNode());) {
  const parent = node.parentElement;
  if (!node.data.trim() || !parent.checkVisibility() || parent.closest(":disabled, .skip, script")) continue;
  let behind = parent, back;
  do back = parse(getComputedStyle(behind).backgroundColor); while (back[3] < 255 && (behind = behind.parentElement));
  if (!behind) back = [255, 255, 255];
  const [one, other] = [light(parse(getComputedStyle(parent).color)), light(back)].sort((a, b) => b - a);
  const contrast = (one + 0.05) / (other + 0.05);
  if (contrast < 4.5) found.push(node.data.trim() + ": " + contrast.toFixed(2));
}
return found;
"""


def start(binary, folder):
    """Returns when the server listens. What it writes is in the folder."""
    server = subprocess.Popen(
        [binary, str(PORT), "--quiet"], env={**os.environ, "TMPDIR": folder}, stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL, text=True)
    for line in server.stderr:
        if "listening on" in line:
            # What it writes later is read, so that it never waits for that.
            threading.Thread(target=server.stderr.read, daemon=True).start()
            return server
    raise SystemExit("The server did not start.")


def post(kind, name):
    """Has the demo do something. Returns the status."""
    request = urllib.request.Request(f"{SERVER}/{kind}/{urllib.parse.quote(name, safe='')}", method="POST")
    try:
        return urllib.request.urlopen(request, timeout=30).status
    except urllib.error.HTTPError as error:
        return error.code


def main(binary, pictures):
    folder = tempfile.mkdtemp()
    server = start(binary, folder)
    options = webdriver.ChromeOptions()
    for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1360,1000"]:
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))

    def until(condition, what):
        WebDriverWait(driver, 30, 0.02).until(lambda _: condition(), what)
        print("ok:", what)

    def text(name):
        return driver.execute_script("return document.getElementById(arguments[0]).innerText", name)

    def element(name):
        return driver.find_element(By.ID, name)

    def rows(name):
        # At once, as the page may change meanwhile.
        return driver.execute_script(
            "return [...document.getElementById(arguments[0]).rows].map(r => [...r.cells].map(c => c.innerText.trim()))", name)

    def figures(name):
        return dict(driver.execute_script(
            "return [...document.getElementById(arguments[0]).children].map(n => [...n.children].map(c => c.innerText))",
            name))

    def focused():
        return driver.switch_to.active_element

    def picture(name):
        if pictures:
            driver.save_screenshot(str(pathlib.Path(pictures) / f"{name}.png"))

    def scheme(name):
        driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]})

    def check_page(what):
        for name in ["light", "dark"]:
            scheme(name)
            poor = driver.execute_script(CONTRAST)
            assert not poor, f"{what}, {name}: too little contrast: {poor}"
        scheme("light")
        for node in driver.find_elements(By.CSS_SELECTOR, "button, input, select, a, [role=region], [tabindex='0']"):
            assert node.accessible_name or not node.is_displayed(), f"no name: {node.get_attribute('outerHTML')}"
        ids = driver.execute_script("return [...document.querySelectorAll('[id]')].map(node => node.id)")
        assert len(ids) == len(set(ids)), f"{what}: two nodes have one id"
        wide = driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{what}: too wide by {wide}"
        if driver.get_window_size()["width"] > 1000:
            wide = driver.execute_script(
                "return [...document.querySelectorAll('.scroll')].some(node => node.scrollWidth > node.clientWidth)")
            assert not wide, f"{what}: a table is too wide"
        print(f"ok: {what}: contrast, names and width")

    try:
        # Who may look.
        driver.get(PAGE)
        until(lambda: "A token is needed" in driver.page_source, "nobody is let in without the token")
        driver.get(PAGE + "?token=demo")
        until(lambda: text("status") == "live", "with it the page is live")
        assert driver.current_url == PAGE, "the token stays in the address"
        assert driver.execute_script("return document.cookie") == "", "scripts can read the cookie"

        # The list.
        def store(name):
            return next((row for row in rows("stores") if row[0].startswith(name + " ")), None)

        until(lambda: store("shop") and store("votes") and store("rooms/lounge"), "the stores are listed")
        until(lambda: "following" in store("votes")[8], "and where they stand with their logs")
        assert text("count") == "3"
        until(lambda: "1 open" in text("directories") and "1 failed" in text("directories"), "directories are, too")
        assert "lounge" in text("directories") and "NobodyThere" in text("directories")
        link = driver.find_element(By.LINK_TEXT, "votes")
        driver.execute_script("arguments[0].focus()", link)
        assert post("vote", "Ada") == 201 and post("vote", "Grace") == 201
        until(lambda: store("votes")[1] == "2" and "at 2" in store("votes")[8], "a commit shows by itself")
        until(lambda: store("votes")[2] != "0", "and how many there are a second")
        post("rooms", "attic")
        until(lambda: store("rooms/attic"), "a store that is opened shows by itself")
        assert focused() == link, "the focus is elsewhere"
        picture("stores")
        check_page("the list")

        # By keyboard.
        def names():
            return [row[0].split(" ")[0] for row in rows("stores")]

        commits = driver.find_element(By.XPATH, "//th/button[text()='Commits']")
        for order, first in [("descending", "votes"), ("ascending", "shop"), ("none", "shop")]:
            commits.send_keys(Keys.ENTER)
            until(lambda: names()[0] == first, f"the list is sorted by keyboard: {order}")
            assert commits.find_element(By.XPATH, "..").get_attribute("aria-sort") == order
        element("filter").send_keys("rooms")
        until(lambda: names() == ["rooms/lounge", "rooms/attic"] and text("count") == "2 of 4", "and filtered")
        element("filter").send_keys("x")
        until(lambda: text("none") == "No store has such a name.", "down to none")
        element("filter").clear()
        element("filter").send_keys(Keys.ESCAPE)
        until(lambda: len(names()) == 4, "and back")
        driver.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
        driver.find_element(By.LINK_TEXT, "shop").send_keys(Keys.ENTER)

        # A store.
        until(lambda: text("name") == "shop" and text("status") == "live", "a link leads to the page of a store")
        until(lambda: "The corner shop" in text("state"), "its state is shown")
        assert "(redacted)" in text("state") and "4929" not in driver.page_source
        post("order", "tea")
        until(lambda: any(row[0] == "pack" for row in rows("effects")), "an effect under way shows by itself")
        until(lambda: "takings: 3" in text("state") and "takings: 0 → 3" in text("changes"), "with what has changed")
        assert driver.execute_script("return document.querySelector('#state mark').textContent").strip()
        until(lambda: [row[1:3] for row in rows("commits")] == [["order", "child 1"]], "and the commit")
        until(lambda: not rows("effects") and "packed" in rows("commits")[0][1], "the effect ends")
        assert figures("figures")["Commits"] == "2" and figures("figures")["Child stores"] == "1"
        post("order", "parcel")
        until(lambda: "has failed, and is tried again" in text("troubles"), "an effect that fails shows, too")
        assert post("order", "parcel") == 409
        until(lambda: "There is no parcel left." in rows("commits")[0][1], "and what is rejected")
        until(lambda: figures("figures")["Rejected"] == "1", "is counted")

        # What is shown is text.
        hostile = "<img src=x onerror=alert(1)><script>alert(1)</script>"
        post("order", hostile)
        until(lambda: hostile in text("state"), "markup in a state is text")
        assert hostile in text("changes")
        assert driver.execute_script("return document.querySelectorAll('img, script').length") == 1

        # As it was.
        until(lambda: [row[0] for row in rows("commits")][:4] == ["5", "–", "4", "3"], "all is there")
        slider = element("time")
        slider.send_keys(Keys.HOME)
        until(lambda: text("moment") == "Commit 1: order, given to child 1.", "the state is shown as it was at first")
        assert slider.get_attribute("aria-valuetext") == text("moment")
        until(lambda: "takings: 3" in text("state") and text("changes-title") == "Changed by till", "after all reducers")
        chosen = driver.find_element(By.CSS_SELECTOR, "#steps input:checked")
        chosen.send_keys(Keys.LEFT)
        until(lambda: "takings: 0" in text("state") and text("changes-title") == "Changed by orders", "after the first")
        assert text("changes").startswith("orders"), text("changes")
        focused().send_keys(Keys.LEFT)
        until(lambda: "orders: []" in text("state"), "and before it")
        assert not element("changes").is_displayed()
        focused().send_keys(Keys.RIGHT, Keys.RIGHT)
        slider.send_keys(Keys.RIGHT, Keys.RIGHT)
        until(lambda: text("moment").startswith("Commit 3: order"), "the slider goes from commit to commit")
        post("order", "bread")
        until(lambda: rows("commits")[0][0] == "6", "what comes meanwhile is listed")
        assert text("moment").startswith("Commit 3") and "bread\"]: 12" in text("state"), "what was is disturbed"
        picture("past")
        check_page("the page of a store")
        scheme("dark")
        picture("past-dark")
        scheme("light")
        button = driver.find_element(By.CSS_SELECTOR, "[aria-label='Show the state at commit 2']")
        button.send_keys(Keys.ENTER)
        until(lambda: text("moment").startswith("Commit 2: packed"), "a commit in the list leads to its state")
        element("now").send_keys(Keys.ENTER)
        until(lambda: text("moment").startswith("Now: after commit ") and "bread\"]: 11" in text("state"), "and back to now")
        assert focused() == slider
        Select(element("shown")).select_by_visible_text("child 1")
        until(lambda: text("state").startswith("(…)") and not element("travel").is_displayed(), "a child's state is shown")
        Select(element("shown")).select_by_visible_text("root")
        until(lambda: element("travel").is_displayed(), "and the root's again")

        # Nothing moves while somebody reads.
        until(lambda: not rows("effects"), "everything is packed")
        element("pause").send_keys(Keys.ENTER)
        until(lambda: text("status") == "paused", "the page can be paused")
        before = text("commits")
        post("order", "bread")
        driver.execute_async_script("setTimeout(arguments[0], 2500)")
        assert text("commits") == before, "it changes nevertheless"
        element("pause").send_keys(Keys.ENTER)
        until(lambda: text("commits") != before and text("status") == "live", "and goes on with all that came")

        # Nor where nobody looks.
        visible = """Object.defineProperty(document, "hidden", { value: !arguments[0], configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));"""
        driver.execute_script(visible, False)
        before = text("commits")
        post("order", "bread")
        driver.execute_async_script("setTimeout(arguments[0], 2500)")
        assert text("commits") == before, "a tab that nobody sees is told"
        driver.execute_script(visible, True)
        until(lambda: text("commits") != before, "a tab that is looked at again is told what came")

        # A log.
        driver.find_element(By.LINK_TEXT, "Inspector").send_keys(Keys.ENTER)
        until(lambda: driver.current_url == PAGE and store("votes"), "back to the list")
        driver.find_element(By.LINK_TEXT, "votes").send_keys(Keys.ENTER)
        until(lambda: text("name") == "votes" and element("log").is_displayed(), "a store with a log")
        log = figures("log")
        assert log["Phase"] == "following" and log["Position"] == "2" and log["Skipped"] == "0", log
        assert not element("travel").is_displayed()
        picture("log")
        check_page("the page of a store with a log")

        # Without the server.
        server.send_signal(signal.SIGKILL)
        server.wait()
        until(lambda: "not connected" in text("status"), "the page says that it is not connected")
        server = start(binary, folder)
        until(lambda: text("status") == "live", "and connects by itself")
        driver.get(PAGE + "/stores/999")
        until(lambda: "not there any more" in text("status"), "a store that has gone is said to have")

        # Narrow.
        driver.set_window_size(375, 800)
        driver.get(PAGE)
        until(lambda: store("shop"), "the list on a phone")
        check_page("the list, 375 pixels wide")
        scheme("dark")
        picture("narrow-dark")
        driver.get(PAGE + "/stores/1")
        until(lambda: "The corner shop" in text("state"), "a store on a phone")
        check_page("the page of a store, 375 pixels wide")
        picture("narrow-store")
        for entry in driver.get_log("browser"):
            assert "Content Security Policy" not in entry["message"], entry
    finally:
        driver.quit()
        server.terminate()
        status = server.wait(30)
        shutil.rmtree(folder)
    assert status == 0, f"the server ended with {status}"
    print("the inspector's pages do what they should")


main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
