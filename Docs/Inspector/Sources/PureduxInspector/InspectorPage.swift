import Hummingbird

/// The pages: the list of stores, and a page for each store. They load nothing from other origins, and insert data as
/// text, never as markup.
struct InspectorPage: Sendable {
  /// The path of the pages, without a trailing slash.
  let root: String

  var stores: Response { page("Inspector", store: nil, Self.storesBody) }
  func store(_ number: Int) -> Response { page("Store \(number) – Inspector", store: number, Self.storeBody) }

  static var style: Response { file(css, "text/css") }
  static var script: Response { file(js, "text/javascript") }

  private func page(_ title: String, store: Int?, _ body: String) -> Response {
    let root = root.replacing("&", with: "&amp;").replacing("\"", with: "&quot;").replacing("<", with: "&lt;")
    return Self.file(
      """
      <!doctype html>
      <html lang="en" data-root="\(root)" data-store="\(store.map(String.init) ?? "")">
      <meta charset="utf-8">
      <meta name="viewport" content="width=device-width, initial-scale=1">
      <meta name="robots" content="noindex">
      <title>\(title)</title>
      <link rel="stylesheet" href="\(root)/inspector.css">
      <a class="skip" href="#main">To the content</a>
      <header>
        <a class="home" href="\(root.isEmpty ? "/" : root)">Inspector</a>
        <p id="status" role="status">connecting</p>
        <button type="button" id="pause" aria-pressed="false">Pause</button>
      </header>
      <main id="main" tabindex="-1">
      \(body)
      </main>
      <script src="\(root)/inspector.js"></script>
      </html>
      """, "text/html")
  }

  private static func file(_ text: String, _ type: String) -> Response {
    Response(
      status: .ok, headers: [.contentType: type + "; charset=utf-8"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
  }

  private static let storesBody = """
    <section aria-labelledby="stores-title">
      <div class="bar">
        <h1 id="stores-title">Stores</h1><span id="count" class="soft"></span>
        <label class="filter">Filter by name <input type="search" id="filter" autocomplete="off" spellcheck="false"></label>
      </div>
      <div class="panel scroll" role="region" aria-labelledby="stores-title" tabindex="0">
        <table>
          <thead><tr id="columns"></tr></thead>
          <tbody id="stores"></tbody>
        </table>
        <p id="none" class="empty">No store has been opened yet.</p>
      </div>
      <p id="more" class="soft"></p>
    </section>
    <section aria-labelledby="directories-title" id="directories-section" hidden>
      <h2 id="directories-title">Directories</h2>
      <div id="directories" class="cards"></div>
    </section>
    """

  private static let storeBody = """
    <div class="bar"><h1 id="name">Store</h1><span id="badges"></span><span id="about" class="soft"></span></div>
    <dl id="figures" class="figures" aria-label="figures"></dl>
    <section id="log-section" aria-labelledby="log-title" hidden>
      <h2 id="log-title">Log</h2>
      <dl id="log" class="figures"></dl>
    </section>
    <div class="halves">
      <section aria-labelledby="state-title">
        <div class="bar">
          <h2 id="state-title">State</h2>
          <label id="shown-label" hidden>of <select id="shown"></select></label>
        </div>
        <div class="panel padded" id="state-panel" hidden>
          <div id="travel">
            <label for="time">As it was</label>
            <input type="range" id="time" min="0" max="0" value="0" step="1">
            <button type="button" id="now" disabled>Back to now</button>
          </div>
          <p id="moment"></p>
          <fieldset id="steps" hidden><legend>After the reducer</legend><div id="step-list"></div></fieldset>
          <h3 id="changes-title">What changed</h3>
          <ul id="changes"></ul>
          <pre id="state" tabindex="0" role="region" aria-label="State as text"></pre>
        </div>
        <p id="no-state" class="panel empty">The state of this store is not shown: the server must call
          <code>inspector.show(store)</code>.</p>
      </section>
      <div>
        <section aria-labelledby="effects-title">
          <div class="bar"><h2 id="effects-title">Running effects</h2><span id="ids"></span></div>
          <div class="panel scroll" role="region" aria-labelledby="effects-title" tabindex="0">
            <table>
              <thead><tr><th scope="col">Effect</th><th scope="col" class="number">Number</th><th scope="col">Of</th>
                <th scope="col" class="number">For</th><th scope="col" class="number">Attempt</th></tr></thead>
              <tbody id="effects"></tbody>
            </table>
            <p id="no-effects" class="empty">None.</p>
          </div>
        </section>
        <section aria-labelledby="troubles-title" id="troubles-section" hidden>
          <h2 id="troubles-title">Recent problems</h2>
          <ul id="troubles" class="panel padded"></ul>
        </section>
        <section aria-labelledby="commits-title">
          <h2 id="commits-title">Last commits</h2>
          <div class="panel scroll" role="region" aria-labelledby="commits-title" tabindex="0">
            <table>
              <thead><tr><th scope="col" class="number">Commit</th><th scope="col">Action</th><th scope="col">Given to</th>
                <th scope="col" class="number">Waited</th><th scope="col" class="number">Took</th>
                <th scope="col">At</th></tr></thead>
              <tbody id="commits"></tbody>
            </table>
            <p id="no-commits" class="empty">None since it was opened.</p>
          </div>
        </section>
      </div>
    </div>
    """

  private static let css = """
    :root { color-scheme: light dark; --back: #f3f5f8; --panel: #fff; --text: #17212f; --soft: #546176; --line: #d8dee8;
      --edge: #7d8aa0; --accent: #1d5bd0; --good: #17713f; --warn: #8a5200; --bad: #b3261e; --mark: #fdf0c2;
      --good-back: #e0f4e8; --warn-back: #fcefd7; --bad-back: #fbe4e2; --mono: ui-monospace, "SF Mono", Menlo, Consolas,
      "Liberation Mono", monospace; }
    @media (prefers-color-scheme: dark) {
      :root { --back: #11161d; --panel: #19202a; --text: #e3e9f1; --soft: #9dabbf; --line: #2c3643; --edge: #66758a;
        --accent: #86b4ff; --good: #74d8a0; --warn: #f2bd5c; --bad: #ff9b91; --mark: #3c3413; --good-back: #16382a;
        --warn-back: #3b2e12; --bad-back: #44211f; }
    }
    * { box-sizing: border-box; }
    body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; padding: 0 1.5rem 3rem; max-width: 100rem;
      background: var(--back); color: var(--text); }
    main:focus { outline: none; }
    .skip { position: absolute; left: -99rem; }
    .skip:focus { left: 1rem; top: .5rem; background: var(--panel); padding: .4rem .8rem; z-index: 1; }
    a { color: var(--accent); }
    header { display: flex; gap: 1rem; align-items: center; padding: .8rem 0; border-bottom: 1px solid var(--line);
      margin-bottom: 1.2rem; }
    .home { font-weight: 650; text-decoration: none; color: var(--text); }
    .home:hover { text-decoration: underline; }
    #status { margin: 0 0 0 auto; color: var(--soft); }
    #status::before { content: ""; display: inline-block; width: .55rem; height: .55rem; border-radius: 50%;
      background: var(--edge); margin-right: .45rem; }
    #status.live::before { background: var(--good); }
    #status.away { color: var(--bad); }
    #status.away::before { background: var(--bad); }
    h1 { font-size: 1.35rem; margin: 0; overflow-wrap: anywhere; }
    h2 { font-size: 1.05rem; margin: 1.6rem 0 .5rem; }
    h3 { font-size: .9rem; margin: .9rem 0 .3rem; }
    .bar { display: flex; gap: .8rem; align-items: baseline; flex-wrap: wrap; margin-bottom: .6rem; }
    .bar h2 { margin-bottom: 0; }
    #ids { display: flex; gap: .4rem; color: var(--soft); }
    .soft, time { color: var(--soft); }
    .filter { margin-left: auto; color: var(--soft); }
    .panel { background: var(--panel); border: 1px solid var(--line); border-radius: .5rem; }
    .padded { padding: .8rem 1rem; }
    .scroll { overflow: auto; max-height: 34rem; }
    .empty { color: var(--soft); margin: 0; padding: .7rem 1rem; }
    [hidden] { display: none !important; }
    table { border-collapse: collapse; width: 100%; }
    th, td { text-align: left; padding: .38rem .75rem; vertical-align: baseline; border-bottom: 1px solid var(--line); }
    tbody tr:last-child > * { border-bottom: 0; }
    thead th { position: sticky; top: 0; background: var(--panel); font-weight: 600; font-size: .82rem;
      color: var(--soft); white-space: nowrap; box-shadow: inset 0 -1px var(--line); border: 0; }
    tbody th { font-weight: 500; }
    #stores th { min-width: 9.5rem; }
    .halves th, .halves td { padding: .38rem .6rem; }
    .zero { color: var(--soft); }
    .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
    tr.ended { color: var(--soft); }
    bdi { overflow-wrap: anywhere; }
    .badge { border-radius: 1rem; padding: .05rem .55rem; font-size: .8rem; white-space: nowrap; background: var(--back);
      border: 1px solid var(--line); color: var(--soft); }
    .badge.good { background: var(--good-back); border-color: transparent; color: var(--good); }
    .badge.warn { background: var(--warn-back); border-color: transparent; color: var(--warn); }
    .badge.bad { background: var(--bad-back); border-color: transparent; color: var(--bad); }
    .chips { display: flex; flex-wrap: wrap; gap: .25rem .35rem; align-items: baseline; }
    td .chips { min-width: 9rem; }
    .bad { color: var(--bad); }
    button, input, select { font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--edge);
      border-radius: .35rem; padding: .2rem .6rem; min-height: 2rem; }
    button { cursor: pointer; }
    button:disabled { opacity: .55; cursor: default; }
    button[aria-pressed=true] { background: var(--accent); border-color: var(--accent); color: var(--panel); }
    thead button, td button { border: 0; background: none; padding: 0; min-height: 1.5rem; min-width: 1.5rem;
      font: inherit; color: inherit; text-align: inherit; }
    td button { color: var(--accent); text-decoration: underline; font-variant-numeric: tabular-nums; }
    thead button:hover { color: var(--text); }
    [aria-sort=ascending] button::after { content: " ▲"; font-size: .7em; }
    [aria-sort=descending] button::after { content: " ▼"; font-size: .7em; }
    :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
    .cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1rem; }
    .cards h3 { margin: 0; font-size: .95rem; }
    .cards .head { display: flex; gap: .35rem .8rem; flex-wrap: wrap; align-items: baseline; padding: .7rem 1rem; }
    .cards .scroll { max-height: 22rem; border-top: 1px solid var(--line); }
    .figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.6rem, 1fr)); gap: .6rem; margin: 0; }
    .figures > div { background: var(--panel); border: 1px solid var(--line); border-radius: .5rem;
      padding: .45rem .8rem .5rem; }
    .figures dt { color: var(--soft); font-size: .8rem; }
    .figures dd { margin: 0; font-size: 1.15rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
    .halves { display: grid; grid-template-columns: minmax(0, 11fr) minmax(0, 9fr); gap: 0 1.5rem; }
    #travel { display: flex; gap: .5rem .8rem; align-items: center; flex-wrap: wrap; }
    #time { flex: 1 1 10rem; padding: 0; accent-color: var(--accent); }
    #moment { margin: .4rem 0 0; color: var(--soft); min-height: 1.45em; }
    #steps { border: 0; padding: 0; margin: .6rem 0 0; }
    #steps legend { font-size: .9rem; font-weight: 600; padding: 0; margin-bottom: .25rem; }
    #step-list { display: flex; flex-wrap: wrap; gap: .2rem 1rem; }
    #steps input { min-height: 0; margin: 0 .35rem 0 0; accent-color: var(--accent); }
    #changes { list-style: none; margin: 0; padding: 0; font-family: var(--mono); font-size: .85rem; max-height: 14rem;
      overflow: auto; }
    #changes li { overflow-wrap: anywhere; unicode-bidi: isolate; padding-left: 1.2rem; text-indent: -1.2rem; }
    #changes .none { font-family: system-ui, sans-serif; color: var(--soft); padding: 0; text-indent: 0; }
    #changes del { color: var(--bad); text-decoration: line-through; }
    #changes ins { color: var(--good); text-decoration: none; }
    #state { margin: .9rem 0 0; padding: .6rem 0; border-top: 1px solid var(--line); font: .85rem/1.5 var(--mono);
      max-height: 40rem; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
    #state span, #state mark { display: block; unicode-bidi: isolate; padding-left: calc(var(--depth) * 1.25rem + 2rem);
      text-indent: -1.2rem; color: inherit; background: none; }
    #state mark { background: var(--mark); box-shadow: inset .2rem 0 var(--warn); }
    #state .rest { color: var(--soft); }
    #troubles { margin: 0; padding-left: 1.8rem; max-height: 14rem; overflow: auto; }
    #troubles li { overflow-wrap: anywhere; }
    code { font-family: var(--mono); font-size: .9em; }
    @media (max-width: 62rem) { .halves { grid-template-columns: minmax(0, 1fr); } }
    @media (max-width: 34rem) {
      body { padding: 0 .8rem 2rem; }
      th, td { padding: .35rem .5rem; }
      .filter { margin-left: 0; width: 100%; }
      .filter input { width: 100%; }
      .figures { grid-template-columns: repeat(auto-fill, minmax(6.6rem, 1fr)); }
      button, input:not([type=radio]), select { min-height: 2.5rem; }
    }
    """

  private static let js = #"""
    "use strict";
    const { root, store: number } = document.documentElement.dataset;
    const element = id => document.getElementById(id);
    // The cookie is set now. Removes the token from the address bar, so that it is not copied with the URL.
    if (location.search.includes("token=")) history.replaceState(null, "", location.pathname);

    // MARK: Text

    const format = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
    const counted = (count, word, words = word + "s") => format.format(count) + " " + (count === 1 ? word : words);
    const clock = time => new Date(time).toLocaleTimeString("en-GB");
    function lasting(seconds) {
      if (seconds === null || seconds === undefined) return "–";
      if (seconds < 0.001) return format.format(seconds * 1e6) + " µs";
      if (seconds < 1) return format.format(seconds * 1000) + " ms";
      if (seconds < 10) return format.format(seconds) + " s";
      if (seconds < 60) return Math.floor(seconds) + " s";
      if (seconds < 3600) return Math.floor(seconds / 60) + " min " + Math.floor(seconds % 60) + " s";
      return Math.floor(seconds / 3600) + " h " + Math.floor(seconds % 3600 / 60) + " min";
    }
    const bytes = count => count < 2048 ? counted(count, "byte") : format.format(count / 1024) + " KB";

    // MARK: Nodes

    // Isolates foreign text in a node of its own, so that its writing direction does not affect its surroundings.
    const quoted = text => make("bdi", {}, text);
    function make(tag, about, ...children) {
      const node = document.createElement(tag);
      for (const [name, value] of Object.entries(about)) node.setAttribute(name, value);
      node.append(...children);
      return node;
    }
    const badge = (kind, text) => make("span", { class: "badge " + kind }, text);
    // Renders a value in a node if it has changed.
    function put(node, value, render = value => [String(value)]) {
      const sign = JSON.stringify([value]);
      if (node.sign === sign) return;
      node.sign = sign;
      node.replaceChildren(...render(value));
    }
    // Keeps one node for each item, so that focus survives updates.
    function fill(parent, items, key, create, show) {
      const known = parent.known || (parent.known = new Map());
      const keys = items.map(item => String(key(item))), there = new Set(keys), focused = document.activeElement;
      for (const [id, node] of known) {
        if (there.has(id)) continue;
        node.remove();
        known.delete(id);
      }
      items.forEach((item, index) => {
        let node = known.get(keys[index]);
        if (!node) known.set(keys[index], node = create(item));
        show(node, item);
        if (parent.children[index] !== node) parent.insertBefore(node, parent.children[index] || null);
      });
      if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
    }
    const cells = (...about) => () => make("tr", {}, ...about.map(([tag, name]) =>
      make(tag, tag === "th" ? { scope: "row", class: name } : { class: name })));

    // Ages of times on the server.
    let offset = 0;
    function age(time) {
      const seconds = Math.max(0, Math.floor((Date.now() + offset - time) / 1000));
      return seconds ? lasting(seconds) : "0 s";
    }
    const since = time => make("time", { datetime: new Date(time).toISOString(), "data-since": time }, age(time));
    function tick() {
      for (const node of document.querySelectorAll("[data-since]")) {
        const text = age(node.dataset.since);
        if (node.textContent !== text) node.textContent = text;
      }
    }

    // MARK: The connection

    const latest = {};
    let isPaused = false, isGone = false, isAway = false;
    const changed = new Set();

    function say() {
      const text = isGone ? "this store is not there any more" :
        isAway ? "not connected: this may be out of date" : isPaused ? "paused" : "live";
      const status = element("status");
      if (status.textContent !== text) status.textContent = text;
      status.className = isAway || isGone ? "away" : isPaused ? "" : "live";
    }
    let end = () => {};
    function connect() {
      end();
      // Browsers limit connections per server, so hidden tabs close theirs.
      if (document.hidden || isGone) return;
      const events = new EventSource(root + "/events" + (number ? "/" + number : ""));
      let heard = Date.now(), every = 1000;
      // A long silence means a dead connection.
      const watch = setInterval(() => {
        if (Date.now() - heard < 8000 + 3 * every) return;
        isAway = true;
        say();
        connect();
      }, 2000);
      let again = 0;
      end = () => {
        clearInterval(watch);
        clearTimeout(again);
        events.close();
      };
      for (const type of ["stores", "directories", "store", "effects", "troubles", "commits", "states"])
        events.addEventListener(type, event => {
          heard = Date.now();
          latest[type] = JSON.parse(event.data);
          changed.add(type);
        });
      // The last event of each batch.
      events.addEventListener("beat", event => {
        heard = Date.now();
        const [time, interval] = JSON.parse(event.data);
        offset = time - Date.now();
        every = interval;
        isAway = false;
        say();
        measure(time);
        if (!isPaused) show();
      });
      events.addEventListener("gone", () => {
        isGone = true;
        end();
        say();
      });
      events.onerror = () => {
        isAway = true;
        say();
        // The browser reconnects by itself, unless the response was not a stream.
        if (events.readyState !== EventSource.CLOSED) return;
        clearTimeout(again);
        again = setTimeout(connect, 2000);
      };
    }
    function show() {
      for (const type of changed) parts[type]();
      changed.clear();
      tick();
    }
    element("pause").onclick = () => {
      isPaused = !isPaused;
      element("pause").setAttribute("aria-pressed", isPaused);
      say();
      if (!isPaused) show();
    };

    // Commits per second, over the last five seconds.
    const rates = new Map();
    function measure(time) {
      const stores = latest.stores ? latest.stores.stores : latest.store ? [latest.store] : [], there = new Set();
      for (const { number, commits } of stores) {
        there.add(number);
        const known = rates.get(number) || { seen: [], rate: 0 }, before = known.rate;
        known.seen = [...known.seen.filter(old => time - old.time < 5500), { time, commits }];
        const first = known.seen[0];
        known.rate = time > first.time ? Math.max(0, commits - first.commits) * 1000 / (time - first.time) : 0;
        rates.set(number, known);
        if (known.rate !== before) changed.add(latest.stores ? "stores" : "store");
      }
      for (const number of rates.keys()) if (!there.has(number)) rates.delete(number);
    }
    const rate = store => store.ended ? 0 : (rates.get(store.number) || { rate: 0 }).rate;

    // MARK: The list

    const effectCount = store => store.figures ? store.figures.effects.reduce((sum, { count }) => sum + count, 0) : 0;
    const figure = (store, name) => store.figures ? store.figures[name] : -1;
    const logKinds = { following: "good", recovering: "warn", waiting: "warn", stopped: "bad", ended: "" };
    function stateOf(store) {
      const badges = [];
      if (store.ended) badges.push(badge("", "ended"));
      if (store.silence) badges.push(badge("bad", "busy for " + lasting(store.silence)));
      return badges;
    }
    function logOf({ log }) {
      if (!log) return [make("span", { class: "soft" }, "–")];
      const details = [];
      if (log.waiting) details.push("for " + lasting(log.waiting));
      if (log.behind) details.push(format.format(log.behind) + " behind");
      if (log.pendingActions) details.push(format.format(log.pendingActions) + " pending");
      if (log.skipped) details.push(format.format(log.skipped) + " skipped");
      if (log.rejected) details.push(format.format(log.rejected) + " rejected");
      return [make("span", { class: "chips" },
        badge(logKinds[log.phase], log.phase + (log.about ? ": " + log.about : "")),
        make("span", { class: "number" }, "at " + format.format(log.position)),
        ...details.map(text => make("span", {}, text)))];
    }
    function effectsOf(store) {
      const named = store.figures ? store.figures.effects : [];
      if (!named.length) return [make("span", { class: "soft" }, store.figures ? "none" : "–")];
      const rest = named.slice(3).reduce((sum, { count }) => sum + count, 0);
      return [make("span", { class: "chips" }, ...named.slice(0, 3).map(({ id, count }) =>
        make("span", { class: "badge" }, quoted(id), count > 1 ? " ×" + format.format(count) : "")),
        rest ? make("span", { class: "soft" }, "and " + format.format(rest) + " more") : "")];
    }
    const shownNumber = value => value < 0 ? "–" : format.format(value);
    // The link is kept when its surroundings change, because it may have the focus.
    function showName(cell, store) {
      if (!cell.firstChild) cell.append(make("a", { href: root + "/stores/" + store.number }, quoted(store.name)), " ",
        make("span", { class: "soft" }, "#" + store.number), " ", make("span", {}));
      put(cell.lastChild, [store.ended, store.silence], () => stateOf(store));
    }
    // The columns: title, sort key, and rendering if it is not the number itself.
    const columns = [
      { title: "Store", by: store => store.name, show: showName },
      { title: "Commits", by: store => store.commits },
      { title: "Per second", by: rate },
      { title: "Waiting", by: store => figure(store, "waiting") },
      { title: "Children", by: store => figure(store, "childStores") },
      { title: "Subscriptions", by: store => figure(store, "subscriptions") },
      { title: "Longest backlog", by: store => figure(store, "longestBacklog") },
      { title: "Effects", by: effectCount,
        show: (cell, store) => put(cell, store.figures && store.figures.effects, () => effectsOf(store)) },
      { title: "Log", by: store => store.log ? store.log.position : -1,
        show: (cell, store) => put(cell, store.log, () => logOf(store)) },
    ];
    let order = null;

    function showStores() {
      const { stores, more } = latest.stores, wanted = element("filter").value.trim().toLowerCase();
      const shown = stores.filter(({ name }) => name.toLowerCase().includes(wanted));
      if (order) {
        const { by } = columns[order.column];
        const compare = (one, other) => one < other ? -1 : one > other ? 1 : 0;
        shown.sort((one, other) => order.direction * compare(by(one), by(other)) || one.number - other.number);
      } else {
        shown.sort((one, other) => !!one.ended - !!other.ended || one.number - other.number);
      }
      put(element("count"), [shown.length, stores.length],
        ([some, all]) => [some === all ? format.format(all) : format.format(some) + " of " + format.format(all)]);
      element("none").hidden = shown.length > 0;
      element("none").textContent = stores.length ? "No store has such a name." : "No store has been opened yet.";
      put(element("more"), more, more =>
        more ? [counted(more, "more store is open", "more stores are open"), ", but not listed."] : []);
      fill(element("stores"), shown, store => store.number,
        cells(...columns.map(({ show }, index) => [index ? "td" : "th", show ? "" : "number"])),
        (row, store) => {
          row.classList.toggle("ended", !!store.ended);
          columns.forEach(({ by, show }, index) => {
            const cell = row.cells[index];
            if (show) return show(cell, store);
            put(cell, shownNumber(by(store)));
            cell.classList.toggle("zero", by(store) <= 0);
          });
        });
    }
    function sortBy(column) {
      // Cycles: numbers descending or names ascending; the reverse; the original order.
      const first = column ? -1 : 1;
      if (!order || order.column !== column) order = { column, direction: first };
      else order = order.direction === first ? { column, direction: -first } : null;
      [...element("columns").children].forEach((node, index) => node.setAttribute("aria-sort",
        !order || order.column !== index ? "none" : order.direction > 0 ? "ascending" : "descending"));
      if (latest.stores) showStores();
    }

    const phases = { opening: "warn", open: "good", failed: "bad", closed: "" };
    function showDirectories() {
      element("directories-section").hidden = !latest.directories.length;
      fill(element("directories"), latest.directories, directory => directory.name, () => {
        const title = quoted(""), head = make("span", { class: "chips" });
        const body = make("tbody", {}), more = make("p", { class: "empty" });
        const titles = ["Key", "", "For", "Took"].map((text, index) =>
          make("th", { scope: "col", class: index > 1 ? "number" : "" }, text || "State"));
        const region = make("div", { class: "scroll", role: "region", tabindex: "0" },
          make("table", {}, make("thead", {}, make("tr", {}, ...titles)), body), more);
        const card = make("section", { class: "panel" },
          make("div", { class: "head" }, make("h3", {}, title), head), region);
        return Object.assign(card, { parts: { title, head, body, more, region } });
      }, (card, directory) => {
        const { title, head, body, more, region } = card.parts;
        put(title, directory.name);
        region.setAttribute("aria-label", "keys of " + directory.name);
        put(head, [directory.open, directory.opening, directory.failed, directory.closed],
          ([open, opening, failed, closed]) => [
            badge("good", format.format(open) + " open"), badge(opening ? "warn" : "", format.format(opening) + " opening"),
            badge(failed ? "bad" : "", format.format(failed) + " failed"), badge("", format.format(closed) + " closed")]);
        put(more, directory.more, count => count ? ["and " + counted(count, "more key")] : []);
        more.hidden = !directory.more;
        fill(body, directory.keys, key => key.sequence, cells(["th", ""], ["td", ""], ["td", "number"], ["td", "number"]),
          (row, key) => {
            put(row.cells[0], [key.key, key.error], ([text, error]) =>
              [quoted(text), ...(error ? [make("div", { class: "bad" }, quoted(error))] : [])]);
            put(row.cells[1], key.phase, phase => [badge(phases[phase], phase)]);
            put(row.cells[2], key.since, time => [since(time)]);
            put(row.cells[3], lasting(key.taken));
          });
      });
    }

    // MARK: A store

    function showFigures(list, figures) {
      fill(list, figures, ({ title }) => title,
        ({ title }) => make("div", {}, make("dt", {}, title), make("dd", {})),
        (node, { value, render }) => put(node.lastChild, value, render));
    }
    function showStore() {
      const { store } = latest, { figures, log } = store;
      put(element("name"), store.name, name => [quoted(name)]);
      document.title = store.name + " – Inspector";
      put(element("badges"), [store.ended, store.silence], () => stateOf(store));
      put(element("about"), [store.opened, store.ended], () => ["#" + store.number + ", opened at " + clock(store.opened),
        ...(store.ended ? [", ended at " + clock(store.ended)] : [", ", since(store.opened), " ago"])]);
      const number = (title, value) => ({ title, value: value === undefined ? "–" : format.format(value) });
      const of = name => figures ? figures[name] : undefined;
      showFigures(element("figures"), [
        number("Commits", store.commits), number("Per second", rate(store)), number("Rejected", store.rejections),
        number("Waiting", of("waiting")), number("Child stores", of("childStores")),
        number("Subscriptions", of("subscriptions")), number("Longest backlog", of("longestBacklog")),
        number("Running tasks", of("runningTasks")),
      ]);
      // Includes waiting effects.
      put(element("ids"), of("effects"), () => effectCount(store) ? ["by id: ", ...effectsOf(store)] : []);
      element("log-section").hidden = !log;
      if (!log) return;
      showFigures(element("log"), [
        { title: "Phase", value: [log.phase, log.about, log.waiting, log.since], render: () => [
          make("span", { class: "chips" }, badge(logKinds[log.phase], log.phase), log.about,
            log.waiting ? "for " + lasting(log.waiting) : "")] },
        number("Position", log.position), number("Behind", log.behind),
        { title: "Pending", value: [log.pendingActions, log.pendingBytes],
          render: ([actions, size]) => [actions ? format.format(actions) + ", " + bytes(size) : "0"] },
        number("Skipped", log.skipped), number("Rejected by it", log.rejected),
        number("Failed snapshots", log.failedSnapshots),
        { title: "Replayed", value: log.replayed === undefined ? "–" :
          format.format(log.replayed) + " in " + lasting(log.replayTook) },
        ...(log.epoch ? [number("Epoch", log.epoch)] : []),
      ]);
    }
    function showEffects() {
      element("no-effects").hidden = latest.effects.length > 0;
      fill(element("effects"), latest.effects, effect => effect.number,
        cells(["th", ""], ["td", "number"], ["td", ""], ["td", "number"], ["td", "number"]), (row, effect) => {
          put(row.cells[0], [effect.id, effect.lastError], ([id, error]) => [
            id === undefined ? make("span", { class: "soft" }, "without a name") : quoted(id),
            ...(error ? [make("div", { class: "bad" }, quoted(error))] : [])]);
          put(row.cells[1], format.format(effect.number));
          put(row.cells[2], effect.store);
          put(row.cells[3], effect.since, time => [since(time)]);
          put(row.cells[4], effect.attempts);
        });
    }
    function showTroubles() {
      element("troubles-section").hidden = !latest.troubles.length;
      fill(element("troubles"), latest.troubles, trouble => trouble.sequence, () => make("li", {}),
        (item, { time, text }) => put(item, [time, text], () => [make("time", {}, clock(time)), " ", quoted(text)]));
    }
    function showCommits() {
      const view = shownStore(), kept = new Set(view ? view.positions : []);
      element("no-commits").hidden = latest.commits.length > 0;
      fill(element("commits"), latest.commits, commit => commit.sequence,
        cells(["td", "number"], ["th", ""], ["td", ""], ["td", "number"], ["td", "number"], ["td", "number"]),
        (row, commit) => {
          const isKept = !commit.rejection && kept.has(commit.position);
          put(row.cells[0], [commit.position, commit.count, isKept], () => {
            if (commit.rejection) return [make("span", { class: "soft" }, "–")];
            const text = format.format(commit.position) + (commit.count > 1 ? " (×" + commit.count + ")" : "");
            if (!isKept) return [text];
            const button = make("button", { type: "button", "aria-label": "Show the state at commit " + text }, text);
            button.onclick = () => travel(commit.position);
            return [button];
          });
          put(row.cells[1], [commit.action, commit.rejection], ([action, reason]) => [quoted(action),
            ...(reason ? [" ", badge("bad", "rejected"), make("div", { class: "bad" }, quoted(reason))] : [])]);
          put(row.cells[2], commit.store);
          put(row.cells[3], lasting(commit.waited));
          put(row.cells[4], lasting(commit.reduced));
          put(row.cells[5], commit.time, time => [make("time", { datetime: new Date(time).toISOString() }, clock(time))]);
        });
    }

    // MARK: Current and past states

    // The past commit and the reducer on display; null for the current state.
    let past = null, isSliding = false, asked = 0;
    const shownStore = () => latest.states && (latest.states.find(({ number }) => String(number) === element("shown").value)
      || latest.states[0]);

    function showStates() {
      const view = shownStore();
      element("state-panel").hidden = !view;
      element("no-state").hidden = !!view;
      if (!view) return;
      element("shown-label").hidden = latest.states.length < 2;
      put(element("shown"), latest.states.map(({ number, store }) => [number, store]), states => states.map(
        ([value, store]) => Object.assign(make("option", { value }, store), { selected: value === view.number })));
      element("travel").hidden = !view.hasHistory;
      const slider = element("time"), { positions } = view;
      slider.max = positions.length;
      slider.disabled = !positions.length;
      if (!isSliding) {
        const index = past ? positions.indexOf(past.position) : -1;
        slider.value = index >= 0 ? index : past ? 0 : positions.length;
      }
      showMoment();
      if (latest.commits) showCommits();
    }
    function showMoment() {
      const view = shownStore(), step = past && past.steps && past.steps[past.step];
      element("now").disabled = !past;
      put(element("moment"), past ? [past.position, past.action, past.store, past.isLost] :
        [view.from, view.to, view.silence, !!view.state], () => {
          if (past && past.isLost) return ["Commit " + format.format(past.position) + " is not kept any more."];
          if (past && !past.steps) return ["Commit " + format.format(past.position)];
          if (past) return ["Commit " + format.format(past.position) + ": ", quoted(past.action), ", given to " + past.store + "."];
          if (view.silence) return ["The tree has not answered for " + lasting(view.silence) + "."];
          if (!view.state) return ["It is being read."];
          if (!view.to) return ["Now: before the first commit."];
          return ["Now: after " + (view.from === view.to ? "commit " + format.format(view.to) :
            "one of the commits " + format.format(view.from) + " to " + format.format(view.to)) + "."];
        });
      element("time").setAttribute("aria-valuetext", element("moment").textContent);
      element("steps").hidden = !past || !past.steps;
      if (past && past.steps) {
        fill(element("step-list"), past.steps.map((step, index) => ({ ...step, index })), step => step.index, ({ index }) => {
          const radio = make("input", { type: "radio", name: "step", value: index });
          radio.onchange = () => {
            past.step = index;
            showMoment();
          };
          return make("label", {}, radio, make("span", {}));
        }, (label, { index, reducer }) => {
          label.firstChild.checked = index === past.step;
          put(label.lastChild, reducer, name => name === undefined ? ["before any"] : [quoted(name)]);
        });
      }
      const state = past ? step : view.state;
      put(element("changes-title"), past ? step && step.reducer : null, name =>
        name === null ? ["Changed since the previous read"] : ["Changed by ", quoted(name || "")]);
      element("changes-title").hidden = element("changes").hidden = !!past && (!step || step.reducer === undefined);
      put(element("changes"), state ? state.changes : [], changes => changes.length ? changes.map(showChange) :
        [make("li", { class: "none" }, "Nothing.")]);
      put(element("state"), state ? [state.lines, state.newLines, state.isCut] : [], ([lines = [], fresh = [], isCut]) => {
        const marked = new Set(fresh);
        return [...lines.map((line, index) => {
          const text = line.trimStart(), node = make(marked.has(index) ? "mark" : "span", {}, text + "\n");
          node.style.setProperty("--depth", (line.length - text.length) / 2);
          return node;
        }), ...(isCut ? [make("span", { class: "rest" }, "… and more.")] : [])];
      });
    }
    const showChange = ({ path, before, after }) => make("li", {}, path ? path + ": " : "",
      ...(before === undefined ? ["added "] : [make("del", {}, before)]),
      ...(before !== undefined && after !== undefined ? [" → "] : []),
      ...(after === undefined ? [" removed"] : [make("ins", {}, after)]));

    async function travel(position) {
      const view = shownStore(), turn = ++asked;
      if (position === null) {
        past = null;
        return showStates();
      }
      // The previous content stays until the response arrives.
      try {
        const answer = await fetch(
          root + "/data/stores/" + number + "/states/" + view.number + "/commits/" + position,
          { signal: AbortSignal.timeout(15000) });
        const commit = answer.ok ? await answer.json() : { position, isLost: true };
        // The slider may have moved meanwhile.
        if (turn !== asked) return;
        past = { ...commit, step: commit.steps ? commit.steps.length - 1 : 0 };
      } catch {
        if (turn !== asked) return;
        past = { position, isLost: true };
      }
      showStates();
    }

    // MARK: The page

    const parts = { stores: showStores, directories: showDirectories, store: showStore, effects: showEffects,
      troubles: showTroubles, commits: showCommits, states: showStates };
    if (number) {
      element("time").oninput = event => {
        isSliding = true;
        const { positions } = shownStore(), index = Number(event.target.value);
        travel(index < positions.length ? positions[index] : null);
      };
      element("time").onchange = () => { isSliding = false; };
      element("now").onclick = () => {
        travel(null);
        element("time").focus();
      };
      element("shown").onchange = () => travel(null);
    } else {
      element("columns").append(...columns.map(({ title, show }, index) => {
        const button = make("button", { type: "button" }, title);
        button.onclick = () => sortBy(index);
        return make("th", { scope: "col", class: show ? "" : "number", "aria-sort": "none" }, button);
      }));
      element("filter").oninput = () => { if (latest.stores) showStores(); };
    }
    setInterval(() => { if (!isPaused) tick(); }, 1000);
    document.onvisibilitychange = connect;
    connect();
    """#
}
