/// The page at `/`: shows a board live, and lets a person add, edit, move and delete cards.
enum Page {
  static let html = """
    <!doctype html>
    <html lang="en">
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>LiveBoard</title>
    <link rel="stylesheet" href="/board.css">
    <header>
      <h1 id="title">LiveBoard</h1><span id="state">connecting</span><span id="here"></span><span id="unread"></span>
    </header>
    <div id="problem" role="alert"></div>
    <main id="columns"></main>
    <script src="/board.js"></script>
    </html>
    """

  static let style = """
    body { font: 16px/1.4 system-ui, sans-serif; margin: 1.5rem; background: #f4f5f7; color: #172b4d; }
    header { display: flex; gap: 1rem; align-items: baseline; flex-wrap: wrap; }
    h1 { margin: 0; font-size: 1.4rem; }
    #state { color: #5e6c84; }
    #columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(14rem, 1fr)); gap: 1rem; margin-top: 1rem; }
    section { background: #ebecf0; border-radius: .5rem; padding: .75rem; min-height: 8rem; }
    section.over { outline: 2px solid #4c9aff; }
    h2 { margin: 0 0 .5rem; font-size: 1rem; }
    article { background: #fff; border-radius: .35rem; padding: .5rem .6rem; margin-bottom: .5rem; cursor: grab;
      box-shadow: 0 1px 1px #091e4240; display: flex; gap: .5rem; }
    article span { flex: 1; overflow-wrap: anywhere; }
    article button { border: 0; background: none; color: #5e6c84; cursor: pointer; }
    form { display: flex; gap: .5rem; }
    input { flex: 1; min-width: 0; padding: .35rem; border: 1px solid #c1c7d0; border-radius: .3rem; }
    #problem { color: #bf2600; min-height: 1.4em; }
    #state.away { color: #fff; background: #bf2600; padding: 0 .4rem; border-radius: .3rem; }
    """

  static let script = """
    const query = new URLSearchParams(location.search);
    const board = query.get("board") || "1";
    const name = query.get("name") || "guest " + Math.floor(Math.random() * 1000);
    const root = "/boards/" + encodeURIComponent(board);
    const element = id => document.getElementById(id);
    let version = 0, looked = 0;

    // Whether it was done. What went wrong stays on the page until something succeeds.
    async function ask(method, path, body) {
      let problem = "";
      try {
        const answer = await fetch(root + path, {
          method, headers: { "content-type": "application/json" }, body: body && JSON.stringify(body) });
        const json = await answer.json().catch(() => ({}));
        if (!answer.ok) problem = json.error ? json.error.message : answer.statusText;
      } catch {
        problem = "The server does not answer. Nothing was changed, as far as is known.";
      }
      element("problem").textContent = problem;
      return problem === "";
    }

    function look() {
      if (!document.hidden) looked = version;
      const unread = version - looked;
      element("unread").textContent = unread ? unread + " unread" : "";
    }

    function card(item, column) {
      const node = document.createElement("article");
      node.draggable = true;
      node.dataset.card = item.id;
      node.ondragstart = event => event.dataTransfer.setData("text/plain", item.id);
      const text = document.createElement("span");
      text.textContent = item.text;
      text.title = "double-click to edit";
      text.ondblclick = () => {
        const changed = prompt("Text of the card", item.text);
        if (changed !== null) ask("PATCH", "/cards/" + item.id, { text: changed });
      };
      const remove = document.createElement("button");
      remove.textContent = "\\u2715";
      remove.title = "delete";
      remove.onclick = () => ask("DELETE", "/cards/" + item.id);
      node.append(text, remove);
      return node;
    }

    function show(state) {
      version = state.version;
      element("title").textContent = state.title;
      element("state").textContent = "version " + state.version;
      const columns = element("columns");
      const typed = new Map([...columns.querySelectorAll("input")].map(input => [input.name, input]));
      const focused = document.activeElement && document.activeElement.name;
      columns.replaceChildren(...state.columns.map(column => {
        const section = document.createElement("section");
        const heading = document.createElement("h2");
        heading.textContent = column.name + " (" + column.cards.length + ")";
        section.append(heading, ...column.cards.map(item => card(item, column)));
        section.ondragover = event => { event.preventDefault(); section.classList.add("over"); };
        section.ondragleave = () => section.classList.remove("over");
        section.ondrop = event => {
          event.preventDefault();
          section.classList.remove("over");
          const id = event.dataTransfer.getData("text/plain");
          const others = [...section.querySelectorAll("article")].filter(node => node.dataset.card !== id);
          const below = others.findIndex(node => {
            const box = node.getBoundingClientRect();
            return event.clientY < box.top + box.height / 2;
          });
          ask("POST", "/cards/" + id + "/move", { column: column.name, position: below < 0 ? others.length : below });
        };
        const form = document.createElement("form");
        const input = typed.get(column.name) || document.createElement("input");
        input.name = column.name;
        input.placeholder = "a new card";
        input.setAttribute("aria-label", "a new card in " + column.name);
        form.onsubmit = async event => {
          event.preventDefault();
          const text = input.value;
          // What was typed stays until it is saved.
          if (await ask("POST", "/cards", { text, column: column.name }) && input.value === text) input.value = "";
        };
        form.append(input);
        section.append(form);
        return section;
      }));
      const input = [...columns.querySelectorAll("input")].find(input => input.name === focused);
      if (input) input.focus();
      look();
    }

    const events = new EventSource(root + "/events?name=" + encodeURIComponent(name));
    events.addEventListener("board", event => show(JSON.parse(event.data)));
    events.addEventListener("attendance", event => {
      const attendance = JSON.parse(event.data);
      const others = attendance.count - attendance.here.length;
      element("here").textContent = "here: " + attendance.here.join(", ") + (others ? " and " + others + " more" : "");
    });
    events.onopen = () => {
      // A board that has not changed is not sent again.
      if (version) element("state").textContent = "version " + version;
      element("state").classList.remove("away");
    };
    events.onerror = () => {
      element("state").textContent = "not connected: what is shown may be old";
      element("state").classList.add("away");
    };
    document.onvisibilitychange = look;
    """
}
