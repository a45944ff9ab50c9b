extension Page {
  /// Needs no library, and uses nothing that the policy of `SafeHeaders` forbids, such as style attributes.
  static let script = #"""
    const query = new URLSearchParams(location.search);
    const board = query.get("board") || "1";
    const root = "/boards/" + encodeURIComponent(board);
    const element = id => document.getElementById(id);
    const name = query.get("name") || localStorage.getItem("name") || "guest " + Math.floor(Math.random() * 1000);
    // All tabs of a person share one stream.
    if (!query.get("name")) localStorage.setItem("name", name);
    // Edits carry the person's name.
    const edits = path => root + path + "?name=" + encodeURIComponent(name);
    // The newest board, the past version on display, and the columns on display.
    let live = null, past = null, columns = [], looked = 0, asked = 0;
    // Whether the slider is being dragged, and the number of past versions being loaded.
    let sliding = false, sought = 0;

    // Returns the server's response, or null if the request failed. The error stays on the page until another request
    // succeeds.
    async function ask(method, path, body, key) {
      let problem = "", json = null;
      element("busy").hidden = ++asked === 0;
      try {
        const headers = { "content-type": "application/json" };
        if (key) headers["idempotency-key"] = key;
        const answer = await fetch(path, {
          method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(15000) });
        json = await answer.json().catch(() => ({}));
        // The response of a proxy has no message, and no status text in HTTP/2.
        if (!answer.ok) problem = json.error ? json.error.message : "The server answers " + answer.status + ".";
      } catch {
        problem = "The server does not answer. A recent edit may not be saved.";
      }
      element("busy").hidden = --asked === 0;
      if (problem || method !== "GET") element("problem").textContent = problem;
      return problem === "" ? json : null;
    }

    function make(tag, className, ...content) {
      const node = document.createElement(tag);
      if (className) node.className = className;
      node.append(...content);
      return node;
    }

    // Isolates user text from the words around it.
    const quoted = text => make("bdi", "", text);

    function look() {
      if (!live) return;
      if (!document.hidden) looked = live.version;
      const unread = live.version - looked;
      element("unread").textContent = unread ? unread + " unread" : "";
    }

    // MARK: People

    // A name has the same colour in every window.
    function hue(name) {
      let hash = 4085;
      for (const letter of name) hash = Math.imul(hash ^ letter.codePointAt(0), 0x9e3779b1) >>> 0;
      return (hash >>> 8) % 360;
    }
    const letters = text => [...new Intl.Segmenter().segment(text)].map(part => part.segment);
    function initials(name) {
      const words = name.split(/[^\p{L}\p{M}\p{N}]+/u).filter(word => word);
      if (words.length > 1) words.splice(0, words.length, ...[words[0], words.at(-1)].map(word => letters(word)[0]));
      return letters(words.join("") || "?").slice(0, 2).join("").toLocaleUpperCase();
    }
    // Marks a node with a person. The style sheet draws the disc.
    function own(node, name) {
      node.dataset.initials = initials(name);
      node.style.setProperty("--hue", hue(name));
      return node;
    }
    function disc(name) {
      const node = own(make("span", "disc"), name);
      node.setAttribute("aria-hidden", "true");
      return node;
    }

    let attendance = { here: [], count: 0 };
    function showPeople() {
      const { here, count } = attendance, crowd = element("crowd");
      // A person with two windows is shown once.
      const names = [...new Set(here)], most = innerWidth < 740 ? 4 : innerWidth < 1000 ? 5 : 8;
      const discs = names.slice(0, names.length > most ? most - 1 : most).map(name => {
        const node = disc(name);
        node.dataset.tip = name;
        node.classList.toggle("me", isMe(name));
        return node;
      });
      const more = count - discs.length - (here.length - names.length);
      if (more) discs.push(make("span", "disc more", "+" + more));
      crowd.replaceChildren(...discs);
      crowd.setAttribute("aria-label", count + (count === 1 ? " person is here" : " people are here"));
      const items = names.map((name, index) => {
        const item = own(make("li", isMe(name) ? "me" : "", quoted(name)), name);
        if (index < names.length - 1) item.append(make("i", "", ", "));
        return item;
      });
      const list = make("ul", "", ...items);
      list.setAttribute("role", "list");
      const others = count - here.length;
      element("here").replaceChildren("here: ", list, others ? " and " + others + " more" : "");
    }
    const isMe = other => other === name.trim();
    function openPeople(isOpen) {
      element("here").classList.toggle("open", isOpen);
      element("crowd").setAttribute("aria-expanded", isOpen);
    }
    element("crowd").onclick = () => openPeople(!element("here").classList.contains("open"));
    element("crowd").onfocus = event => { if (event.target.matches(":focus-visible")) openPeople(true); };
    element("crowd").onblur = () => openPeople(false);
    element("here").onmousedown = event => event.preventDefault();

    // The tooltip of an icon button or a disc, shown on hover or focus.
    function tip(event) {
      const node = event.target.closest && event.target.closest("[data-tip]"), box = element("tip");
      // A fully visible text needs no tooltip.
      const isCut = node && [node, ...node.children].some(part => part.scrollWidth > part.clientWidth);
      const isMeant = node && (!node.matches("h1, .what, #new, #delete") || isCut) &&
        (event.type === "pointerover" ? event.pointerType === "mouse" : node.matches(":focus-visible"));
      box.textContent = isMeant ? node.dataset.tip : "";
      if (!isMeant) return;
      const at = node.getBoundingClientRect(), size = box.getBoundingClientRect();
      const left = Math.min(Math.max(4, at.left + (at.width - size.width) / 2), innerWidth - size.width - 4);
      const top = at.bottom + size.height + 8 < innerHeight ? at.bottom + 6 : at.top - size.height - 6;
      box.style.transform = "translate(" + left + "px, " + top + "px)";
    }
    for (const type of ["pointerover", "focusin", "focusout", "scroll"]) document.addEventListener(type, tip, true);

    // MARK: Edits

    // This person's last edit can be undone and redone.
    let last = 0;
    function done(what, text, answer, word = "undo") {
      if (!answer || !answer.version || answer.version < last) return answer;
      last = answer.version;
      const back = button(word, word + ": " + what + " “" + text + "”.", async () => {
        if (back.disabled || past) return;
        back.disabled = true;
        const undone = await ask("POST", edits("/undo"), { version: answer.version });
        // A failed undo would fail again.
        if (back.isConnected) element("undo").replaceChildren();
        if (undone) done(what, text, undone, word === "undo" ? "redo" : "undo");
        focusUndo();
      });
      element("undo").replaceChildren((word === "redo" ? "Undone: " : "") + what + " “", quoted(text), "”. ", back);
      return answer;
    }
    // Moves the focus here if the focused node is gone.
    function focusUndo() {
      const back = element("undo").querySelector("button");
      if (back && document.activeElement === document.body) back.focus();
    }
    document.onkeydown = event => {
      if (event.key === "Escape") {
        openPeople(false);
        element("tip").textContent = "";
      }
      const back = element("undo").querySelector("button");
      const isMeant = (event.ctrlKey || event.metaKey) && event.key === "z" && !event.shiftKey && !event.repeat;
      if (!isMeant || !back || event.target.matches("input:not([type=range])")) return;
      event.preventDefault();
      back.click();
    };

    const add = async (text, column, key) => {
      const body = schema > 1 ? { text, column, author: name } : { text, column };
      return done("Added", text, await ask("POST", edits("/cards"), body, key));
    };
    const edit = async ({ id, text }, newText) =>
      done("Changed", text, await ask("PATCH", edits("/cards/" + id), { text: newText }));
    const move = async ({ id, text }, column, position) =>
      done("Moved", text, await ask("POST", edits("/cards/" + id + "/move"), { column, position }));
    // Cycles through a task and the colours of notes.
    const kinds = ["task", "yellow", "green", "blue"];
    const colour = item => item.kind && item.kind.note ? item.kind.note.colour : "task";
    async function turn(item) {
      const next = kinds[(kinds.indexOf(colour(item)) + 1) % kinds.length];
      const kind = next === "task" ? { task: {} } : { note: { colour: next } };
      done("Changed", item.text, await ask("PUT", edits("/cards/" + item.id + "/kind"), kind));
    }
    async function remove({ id, text }) {
      const node = cards.get(id);
      node.isLeaving = true;
      const answer = await ask("DELETE", edits("/cards/" + id));
      node.isLeaving = answer !== null;
      // The deletion may not have arrived on the stream yet.
      if (answer && cards.has(id) && cards.get(id).contains(document.activeElement)) document.activeElement.blur();
      done("Deleted", text, answer);
      if (answer) focusUndo();
    }

    // MARK: Cards and columns

    function button(content, label, action) {
      const node = make("button", "", content);
      node.setAttribute("aria-label", label);
      node.onclick = action;
      return node;
    }
    function icon(path) {
      const node = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      node.setAttribute("viewBox", "0 0 16 16");
      node.append(document.createElementNS(node.namespaceURI, "path"));
      node.firstChild.setAttribute("d", path);
      return node;
    }

    // A card's place on the displayed board.
    function place(id) {
      for (const [column, { cards }] of columns.entries()) {
        const row = cards.findIndex(card => card.id === Number(id));
        if (row >= 0) return { column, row, item: cards[row] };
      }
    }

    // The dragged card, and a marker at its drop position.
    let dragged = null;
    function showDrop(list, y) {
      document.querySelectorAll(".below, .end").forEach(node => node.classList.remove("below", "end"));
      if (!list) return;
      const others = [...list.children].filter(node => node !== dragged);
      const below = others.findIndex(node => {
        const box = node.getBoundingClientRect();
        return y < box.top + box.height / 2;
      });
      if (below < 0) list.classList.add("end"); else others[below].classList.add("below");
      return below < 0 ? others.length : below;
    }

    function card(id) {
      const node = make("li");
      node.dataset.card = id;
      node.draggable = true;
      // On a touch screen, a tap on a card shows its buttons.
      node.tabIndex = -1;
      node.ondragstart = event => {
        event.dataTransfer.setData("text/plain", id);
        dragged = node;
        node.classList.add("dragged");
      };
      node.ondragend = () => {
        dragged = null;
        node.classList.remove("dragged");
        showDrop(null);
      };
      const text = make("span");
      text.dir = "auto";
      const to = (columnStep, rowStep) => () => {
        const { column, row, item } = place(id);
        const target = columns[column + columnStep];
        if (target) move(item, target.name, columnStep ? target.cards.length : row + rowStep);
      };
      const change = button(icon("m3 13 .7-3 6.8-6.8 2.3 2.3L6 12.3z"), "", () => {
        if (text.parentNode !== node) return;
        const input = make("input");
        input.value = place(id).item.text;
        input.defaultValue = input.value;
        input.dir = "auto";
        input.setAttribute("aria-label", "text of the card");
        const close = () => { input.replaceWith(text); change.focus(); };
        input.onkeydown = async event => {
          if (event.key === "Escape") close();
          if (event.key !== "Enter" || event.isComposing) return;
          const sent = input.value;
          // The typed text stays until it is saved, and so does text that is typed meanwhile.
          if (await edit(place(id).item, sent) && input.value === sent) close();
        };
        text.replaceWith(input);
        input.focus();
      });
      text.ondblclick = () => change.click();
      const buttons = [
        change, button(icon("M13 8H3m4-4L3 8l4 4"), "", to(-1, 0)), button(icon("M3 8h10M9 4l4 4-4 4"), "", to(1, 0)),
        button(icon("M8 13V3M4 7l4-4 4 4"), "", to(0, -1)), button(icon("M8 3v10M4 9l4 4 4-4"), "", to(0, 1)),
        button(icon("m4 4 8 8M12 4l-8 8"), "", () => remove(place(id).item)),
        // Hidden while older servers run that cannot read it.
        ...(schema > 1 ? [button(icon("M3.5 3.5h9v9h-9zm0 6 6-6m-3 9 6-6"), "", () => turn(place(id).item))] : []),
      ];
      const labels = [
        "edit", "move to the column before:", "move to the next column:", "move up:", "move down:", "delete",
        "task, or note in the next colour:"];
      const author = make("small");
      node.append(text, author, make("div", "tools", ...buttons));
      node.show = item => {
        const isChanged = node.classList.contains("changed");
        node.className = "card " + colour(item);
        node.classList.toggle("changed", isChanged);
        if (author.textContent !== (item.author || "")) {
          author.textContent = item.author || "";
          if (item.author) own(author, item.author);
        }
        if (node.item === item.text) return;
        node.item = item.text;
        text.textContent = item.text;
        buttons.forEach((button, index) => {
          button.setAttribute("aria-label", labels[index] + " " + item.text);
          button.dataset.tip = labels[index].replace(":", "");
        });
      };
      return node;
    }

    function makeColumn(name) {
      const section = make("section"), heading = make("h2"), list = make("ul");
      section.setAttribute("aria-label", name);
      section.ondragover = event => {
        event.preventDefault();
        section.classList.add("over");
        showDrop(list, event.clientY);
      };
      section.ondragleave = event => { if (!section.contains(event.relatedTarget)) section.classList.remove("over"); };
      section.ondrop = event => {
        event.preventDefault();
        section.classList.remove("over");
        const at = showDrop(list, event.clientY), item = place(event.dataTransfer.getData("text/plain"));
        if (item) move(item.item, name, at);
      };
      const form = make("form"), input = make("input"), plus = make("button", "", icon("M8 3v10M3 8h10"));
      input.placeholder = "a new card";
      input.dir = "auto";
      input.setAttribute("aria-label", "a new card in " + name);
      plus.setAttribute("aria-label", "add it to " + name);
      // The key of a text that might not have been saved: a retry of the unchanged text adds no second card. The same text, typed
      // again, is another card.
      let unsaved = null;
      input.oninput = () => { unsaved = null; };
      form.onsubmit = async event => {
        event.preventDefault();
        const key = unsaved = unsaved || Date.now() + "-" + Math.random();
        // The typed text stays until it is saved.
        if (!await add(input.value, name, key) || unsaved !== key) return;
        unsaved = null;
        input.value = "";
      };
      form.append(input, plus);
      section.append(heading, list, form);
      // For narrow windows, in which the columns are stacked.
      const jump = make("button");
      jump.onclick = () => section.scrollIntoView();
      element("jump").append(jump);
      section.show = (column, nodes) => {
        for (const node of [heading, jump]) node.replaceChildren(column.name, make("b", "", column.cards.length));
        nodes.forEach((node, index) => {
          if (list.children[index] !== node) list.insertBefore(node, list.children[index] || null);
        });
        while (list.children.length > nodes.length) list.lastChild.remove();
      };
      return section;
    }

    // The displayed nodes, and the newest stream event of each type except the board, which is in `live`.
    const sections = new Map(), cards = new Map(), newest = new Map();

    // MARK: Movement

    const reduced = matchMedia("(prefers-reduced-motion: reduce)"), isStill = () => reduced.matches || document.hidden;
    const timing = { duration: 240, easing: "cubic-bezier(.2, .7, .3, 1)" };

    // The current positions of the cards, even during an animation.
    const seen = () =>
      new Map([...cards].flatMap(([id, node]) => node.isConnected ? [[id, node.getBoundingClientRect()]] : []));
    const isInSight = box => box.bottom > 0 && box.top < innerHeight;

    // Moves each card from its previous position to its new one, and fades in new cards.
    function settle(before) {
      if (isStill()) return;
      for (const node of cards.values()) node.getAnimations().forEach(animation => animation.cancel());
      const after = seen();
      for (const [id, box] of after) {
        const was = before.get(id), node = cards.get(id);
        if (!was) {
          if (isInSight(box)) node.animate([{ opacity: 0, transform: "scale(.94)" }, {}], timing);
        } else if ((was.left !== box.left || was.top !== box.top) && (isInSight(was) || isInSight(box))) {
          const transform = "translate(" + (was.left - box.left) + "px, " + (was.top - box.top) + "px)";
          // Above the cards that it passes.
          const zIndex = was.left !== box.left ? 1 : 0;
          node.animate([{ transform, zIndex }, { transform: "none", zIndex }], timing);
        }
      }
    }

    // Fades out a removed card.
    function fade(node, box) {
      if (isStill() || !box || !isInSight(box)) return;
      const ghost = make("div", node.className, ...[...node.children].slice(0, 2).map(child => child.cloneNode(true)));
      ghost.setAttribute("aria-hidden", "true");
      ghost.inert = true;
      ghost.style.cssText = "left: " + box.left + "px; top: " + box.top + "px; width: " + box.width + "px";
      document.body.append(ghost);
      ghost.animate([{}, { opacity: 0, transform: "scale(.94)" }], timing).onfinish = () => ghost.remove();
    }

    function show(change) {
      const focused = document.activeElement, board = past || live, time = element("time");
      const isFirst = sections.size === 0;
      const before = isStill() ? new Map() : seen();
      columns = board.columns;
      document.title = "\u2068" + board.title + "\u2069 – LiveBoard";
      element("title").textContent = board.title;
      element("title").dataset.tip = board.title;
      [time.min, time.max] = [Math.max(1, live.version - 100), live.version];
      if (!sliding && !sought) time.value = board.version;
      time.disabled = time.min === time.max;
      element("now").hidden = !past;
      element("undo").hidden = past !== null;
      // Past versions are read-only.
      element("columns").inert = past !== null;
      showState();
      showStep(board.version);
      const step = past && steps.get(past.version), there = new Set();
      const nodes = columns.map(column => column.cards.map(item => {
        const node = cards.get(item.id) || card(item.id);
        cards.set(item.id, node);
        there.add(item.id);
        node.show(item);
        return node;
      }));
      const gone = step && !step.after ? trace(step) : null;
      for (const [id, node] of cards) if (!there.has(id)) takeAway(id, node, gone ? null : before.get(id));
      if (gone) nodes[step.before.column].splice(step.before.position, 0, gone);
      if (isFirst) {
        element("columns").replaceChildren();
        element("columns").removeAttribute("aria-busy");
      }
      columns.forEach((column, index) => {
        if (!sections.has(column.name)) {
          sections.set(column.name, makeColumn(column.name));
          element("columns").append(sections.get(column.name));
        }
        sections.get(column.name).show(column, nodes[index]);
      });
      // A moved node loses the focus.
      if (focused && focused.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
      mark(past ? step : change, gone);
      if (!isFirst) settle(before);
      look();
    }

    // Keeps text that is being typed into a removed card: it returns with the card, or moves to the new-card field if
    // the card is deleted.
    function takeAway(id, node, box) {
      const typed = node.querySelector("input");
      const section = node.closest("section") || element("columns").firstElementChild;
      const isTyping = typed === document.activeElement;
      if (node.isConnected) fade(node, box);
      node.remove();
      if (typed && past) return;
      cards.delete(id);
      if (!typed || typed.value === typed.defaultValue || node.isLeaving) return;
      const input = section.querySelector("form input");
      input.value = input.value ? input.value + " " + typed.value : typed.value;
      if (isTyping) input.focus();
      element("problem").textContent = "The card that you were editing is deleted. You can add its text as a new card.";
    }

    // MARK: Authors of changes

    // The last changes, by version.
    let steps = new Map(), loading = null;
    function loadSteps() {
      loading = loading || (async () => {
        const changes = await ask("GET", root + "/history");
        if (changes) steps = new Map(changes.map(change => [change.version, change]));
        loading = null;
        if (live) show();
      })();
      return loading;
    }

    const who = change => change.by || "Somebody";
    const columnName = place => live.columns[place.column].name;
    // A change in words: strings, and nodes with user text.
    function words({ version, card, before, after }) {
      const text = quoted((after || before).text);
      if (!after) return [" deleted “", text, "” from " + columnName(before)];
      if (!before) {
        const isBack = [...steps.values()].some(other => other.card === card && other.version < version);
        return [isBack ? " brought “" : " added “", text, (isBack ? "” back" : "”") + " to " + columnName(after)];
      }
      if (before.column !== after.column)
        return [" moved “", text, "” from " + columnName(before) + " to " + columnName(after)];
      if (before.text !== after.text) return [" changed “", quoted(before.text), "” to “", text, "”"];
      if (colour(before) !== colour(after))
        return [" made “", text, colour(after) === "task" ? "” a task" : "” a " + colour(after) + " note"];
      if (before.position !== after.position)
        return [" moved “", text, "” " + (before.position > after.position ? "up in " : "down in ") + columnName(after)];
      return [" changed “", text, "”"];
    }

    function showStep(version) {
      const step = steps.get(version), time = element("time"), [min, max] = [Number(time.min), Number(time.max)];
      const percent = version => (max > min ? 100 * (version - min) / (max - min) : 100) + "%";
      const parts = [];
      if (step) {
        const what = make("span", "what", make("b", "", quoted(who(step))), ...words(step));
        parts.push(disc(who(step)), what);
        if (step.at) {
          const date = new Date(step.at.seconds * 1000), isToday = date.toDateString() === new Date().toDateString();
          const day = isToday ? {} : { day: "numeric", month: "short" };
          const node = make("time", "", date.toLocaleString([], { ...day, hour: "2-digit", minute: "2-digit" }));
          node.dateTime = date.toISOString();
          node.dataset.tip = date.toLocaleString();
          parts.push(node);
        }
        what.dataset.tip = what.textContent;
      } else if (version === 1) {
        parts.push("The board as it was made.");
      } else if (past) {
        parts.push("Earlier versions are not kept.");
      }
      element("step").replaceChildren(...parts);
      const said = parts.map(part => part.textContent || part).join(" ");
      time.setAttribute("aria-valuetext", "version " + version + " of " + max + ". " + said);
      const track = element("track"), stops = [];
      for (let made = min + 1; made <= max; made++) {
        const change = steps.get(made);
        const paint = change && change.by ? "oklch(var(--tone) .13 " + hue(change.by) + ")" : "var(--line)";
        stops.push(paint + " " + percent(made - 1) + " " + percent(made));
      }
      if (stops.length) track.style.setProperty("--steps", stops.join(", "));
      track.style.setProperty("--shown", percent(version));
      [element("before").disabled, element("after").disabled] = [version <= min, version >= max];
    }

    // The deleted card of a past step, at its former place.
    function trace({ before }) {
      const node = make("li", "card gone", make("del", "", before.text));
      node.firstChild.dir = "auto";
      node.dataset.card = "gone";
      return node;
    }

    // Marks the changed card and its author: permanently in a past version, otherwise for some seconds.
    let marks = [];
    function unmark(node) {
      node.classList.remove("changed");
      marks = marks.filter(mark => mark.node !== node || clearTimeout(mark.timer));
    }
    function mark(change, gone) {
      const node = change && (gone || cards.get(change.card));
      if (past || !change) marks.filter(({ node }) => past || node.isPast).forEach(({ node }) => unmark(node));
      if (!node || !past && (!change.by || isMe(change.by))) return;
      unmark(node);
      own(node, who(change));
      node.dataset.by = who(change);
      node.isPast = past !== null;
      node.classList.add("changed");
      marks.push({ node, timer: past ? 0 : setTimeout(() => unmark(node), 4000) });
      if (past || node.contains(document.activeElement)) node.scrollIntoView({ block: "nearest" });
    }

    function showState() {
      const state = element("state");
      if (newest.has("deleted")) {
        state.textContent = "this board has been deleted";
        element("columns").inert = true;
        return;
      }
      const connected = newest.get("connection") !== false;
      const shown = past ? "version " + past.version + " of " + live.version + ", as it was" :
        live ? "version " + live.version : "connecting";
      const text = connected ? shown : live ? "not connected: this may be out of date" : "not connected";
      if (state.textContent !== text) state.textContent = text;
      state.classList.toggle("away", !connected);
      state.classList.toggle("then", past !== null);
    }

    let wanted = 0;
    element("time").oninput = async event => {
      const version = wanted = Number(event.target.value);
      // New versions do not move the slider while it is dragged.
      sliding = true;
      sought++;
      // Reloads the changes: a name may have been erased from them.
      if (!past) await loadSteps();
      const was = version < live.version ? at(version) || await ask("GET", root + "?version=" + version) : null;
      sought--;
      // The slider may have moved meanwhile.
      if (wanted !== version) return;
      past = was;
      show();
    };
    element("time").onchange = () => { sliding = false; };
    function stepBy(count) {
      element("time").value = Number(element("time").value) + count;
      element("time").oninput({ target: element("time") });
      sliding = false;
    }
    element("before").onclick = () => stepBy(-1);
    element("after").onclick = () => stepBy(1);
    element("now").onclick = () => {
      past = null;
      wanted = 0;
      show();
      element("time").focus();
    };

    // The board at an earlier version, made by reverting later changes; null if a change is unknown.
    function at(version) {
      const board = structuredClone(live);
      for (let made = live.version; made > version; made--) {
        if (!steps.has(made)) return null;
        put(board, steps.get(made).card, steps.get(made).before);
      }
      board.version = version;
      return board;
    }

    function put(board, id, place) {
      for (const column of board.columns) column.cards = column.cards.filter(item => item.id !== id);
      if (!place) return;
      const { column, position, text, kind, author } = place;
      board.columns[column].cards.splice(position, 0, { id, text, kind, author });
    }

    // MARK: Boards

    async function listBoards() {
      const boards = await ask("GET", "/boards") || [];
      // Boards without edits have no figures.
      const about = ({ cards, version }) =>
        version ? " – " + cards + (cards === 1 ? " card" : " cards") + ", version " + version : "";
      const options = boards.map(item =>
        new Option("\u2068" + item.title + "\u2069" + about(item), item.id, false, String(item.id) === board));
      element("boards").replaceChildren(...options);
    }
    const open = id => { location.search = "?board=" + id; };
    element("boards").onfocus = listBoards;
    element("boards").onchange = event => open(event.target.value);
    element("new").onclick = async () => {
      const title = prompt("Title of the new board");
      const made = title && await ask("POST", "/boards", { title });
      if (made) open(made.board.id);
    };
    element("delete").onclick = async () => {
      const title = live && live.title;
      if (title && confirm("Delete “" + title + "” and all its cards permanently?")) await ask("DELETE", root);
    };
    element("name").value = name;
    element("name").onchange = event => {
      localStorage.setItem("name", event.target.value);
      location.search = "?board=" + encodeURIComponent(board);
    };
    onresize = showPeople;
    listBoards();

    // MARK: The stream

    async function receive(type, data, isLate = false) {
      if (type === "board") {
        const board = JSON.parse(data);
        // Another server may lag for a moment. If it still has the older version later, that version is right.
        if (live && board.version < live.version && !isLate) {
          setTimeout(async () => receive("board", JSON.stringify(await ask("GET", root) || live), true), 3000);
          return;
        }
        live = board;
        show();
        // A random delay, because many clients may reconnect at once.
        if (live.version > 1 && !steps.has(live.version)) setTimeout(loadSteps, Math.random() * 1000);
      } else if (type === "change") {
        const change = JSON.parse(data), { version } = change;
        if (!live || version <= live.version) return;
        if (version > live.version + 1) {
          // A change is missing.
          const now = await ask("GET", root);
          if (now && now.version > live.version) live = now;
        } else {
          put(live, change.card, change.after);
          live.version = version;
        }
        steps.set(version, change);
        show(change);
      } else {
        newest.set(type, data);
        showState();
      }
      if (type === "attendance") {
        attendance = JSON.parse(data);
        showPeople();
      }
    }

    // A browser limits connections per server, so one of the tabs with this board has the stream and informs the
    // others. When it closes, another tab takes over.
    const stream = board + " " + name;
    const channel = new BroadcastChannel(stream);
    function follow() {
      const tell = (type, data) => {
        receive(type, data);
        channel.postMessage([type, data]);
      };
      channel.onmessage = event => {
        if (event.data !== "hello") return;
        newest.forEach((data, type) => tell(type, data));
        if (live) tell("board", JSON.stringify(live));
      };
      (function connect() {
        const events = new EventSource(root + "/events?name=" + encodeURIComponent(name));
        // The server sends a heartbeat every 15 seconds. A longer silence means a dead connection.
        let heard = Date.now();
        const watch = setInterval(() => {
          if (Date.now() - heard < 40000) return;
          clearInterval(watch);
          events.close();
          tell("connection", false);
          connect();
        }, 5000);
        events.addEventListener("beat", () => { heard = Date.now(); });
        for (const type of ["board", "change", "attendance", "deleted"])
          events.addEventListener(type, event => {
            heard = Date.now();
            tell(type, event.data);
            if (type !== "deleted") return;
            clearInterval(watch);
            events.close();
          });
        events.onopen = () => tell("connection", true);
        events.onerror = () => {
          tell("connection", false);
          // The browser reconnects by itself, unless the response was not a stream.
          if (events.readyState !== EventSource.CLOSED) return;
          clearInterval(watch);
          setTimeout(connect, 1000);
          // Shows the reason, if the server gives one.
          ask("GET", root);
        };
      })();
      return new Promise(() => {});
    }
    channel.onmessage = event => { if (event.data !== "hello") receive(...event.data); };
    channel.postMessage("hello");
    // `navigator.locks` is missing if the page was loaded over plain HTTP.
    if (navigator.locks) navigator.locks.request(stream, follow); else follow();
    document.onvisibilitychange = look;
    """#
}
