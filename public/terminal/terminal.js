// The session's terminal: <session-terminal src="/sessions/ID/terminal">. Loads xterm.js on this page alone, keeps the
// connection, and comes back to the same shell after a lost one (it lives on for two minutes, with its last output).

const RETRY_FIRST_MS = 500;
const RETRY_MOST_MS = 8_000;
// After this long without a connection the server has given the shell up.
const GIVE_UP_MS = 120_000;

// xterm.js makes style elements: the page's policy wants its nonce on them.
const nonce = document.querySelector("script[nonce]")?.nonce ?? "";
const create = Document.prototype.createElement;
document.createElement = function (name, options) {
  const element = create.call(this, name, options);
  if (String(name).toLowerCase() === "style") {
    element.nonce = nonce;
  }
  return element;
};

const base = new URL(".", import.meta.url);
let library;
function load() {
  library ??= (async () => {
    const styles = document.createElement("link");
    styles.rel = "stylesheet";
    styles.href = new URL("xterm.css", base).href;
    document.head.append(styles);
    const [xterm, fit] = await Promise.all([
      import(new URL("xterm.mjs", base).href),
      import(new URL("addon-fit.mjs", base).href),
    ]);
    return { Terminal: xterm.Terminal, FitAddon: fit.FitAddon };
  })();
  return library;
}

// The sixteen colours that programs choose by number, readable on either background (WCAG 2.2 AA). xterm's own way to that
// (minimumContrastRatio) writes style attributes, which the content security policy does not allow.
const PALETTE = [
  ["black", "#1f2328", "#9aa4af"],
  ["red", "#a61b12", "#ff9a92"],
  ["green", "#135c2c", "#7ee787"],
  ["yellow", "#6b4e00", "#e3b341"],
  ["blue", "#1a4bb0", "#8ec5ff"],
  ["magenta", "#7a2393", "#d8b4ff"],
  ["cyan", "#085a66", "#76e3ea"],
  ["white", "#444c56", "#e6edf3"],
  ["brightBlack", "#4b535d", "#a8b1bb"],
  ["brightRed", "#a61b12", "#ffb1ab"],
  ["brightGreen", "#135c2c", "#9cf0a3"],
  ["brightYellow", "#6b4e00", "#f0ca6b"],
  ["brightBlue", "#1a4bb0", "#a9d3ff"],
  ["brightMagenta", "#7a2393", "#e4caff"],
  ["brightCyan", "#085a66", "#9bf0f5"],
  ["brightWhite", "#24292f", "#ffffff"],
];

function colours() {
  const root = getComputedStyle(document.documentElement);
  const token = (name) => root.getPropertyValue(name).trim();
  // Tokens may be light-dark(): the browser resolves them on an element.
  const probe = document.createElement("span");
  document.body.append(probe);
  const computed = (value) => {
    probe.style.color = value;
    return getComputedStyle(probe).color;
  };
  const resolve = (name) => computed(token(name));
  const found = {
    background: resolve("--sunken"),
    foreground: resolve("--ink"),
    cursor: resolve("--accent"),
    cursorAccent: resolve("--sunken"),
    selectionBackground: resolve("--line-strong"),
  };
  for (const [name, light, dark] of PALETTE) {
    found[name] = computed(`light-dark(${light}, ${dark})`);
  }
  probe.remove();
  return found;
}

class SessionTerminal extends HTMLElement {
  #terminal;
  #fit;
  #socket;
  #id;
  // Bytes still to come that were shown before. What they ask of a terminal was answered then: an answer now would be typed
  // into the shell.
  #replay = 0;
  #replaying = 0;
  #lostAt = 0;
  #retryMs = RETRY_FIRST_MS;
  #timer = 0;
  #over = false;
  #undo = [];
  #status;
  #encoder = new TextEncoder();

  async connectedCallback() {
    this.#over = false;
    this.#replay = 0;
    this.#replaying = 0;
    this.replaceChildren();
    const screen = document.createElement("div");
    screen.className = "terminal-screen";
    this.#status = document.createElement("p");
    this.#status.className = "terminal-status";
    this.#status.setAttribute("role", "status");
    this.append(screen, this.#status);
    this.#say("Connecting…");
    let parts;
    try {
      parts = await load();
    } catch {
      this.#say("The terminal could not be loaded. Reload the page.");
      return;
    }
    if (!this.isConnected) {
      return;
    }
    this.#terminal = new parts.Terminal({
      cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
      fontFamily: getComputedStyle(this).fontFamily,
      fontSize: 13,
      scrollback: 5_000,
      screenReaderMode: false,
      theme: colours(),
    });
    this.#fit = new parts.FitAddon();
    this.#terminal.loadAddon(this.#fit);
    this.#terminal.open(screen);
    this.#terminal.textarea?.setAttribute("aria-label", "Terminal input");
    // The way out for people on a keyboard: Tab belongs to the shell.
    this.#terminal.attachCustomKeyEventHandler((event) => {
      if (event.type === "keydown" && event.key === "Escape" && event.shiftKey) {
        this.#terminal.blur();
        document.querySelector("#terminal-after")?.focus();
        return false;
      }
      return true;
    });
    this.#fit.fit();
    this.#terminal.onData((text) => this.#type(this.#encoder.encode(text)));
    this.#terminal.onBinary((text) =>
      this.#type(Uint8Array.from(text, (letter) => letter.charCodeAt(0))),
    );
    this.#terminal.onResize(({ cols, rows }) => this.#tell({ type: "resize", cols, rows }));
    const observer = new ResizeObserver(() => this.#fit?.fit());
    observer.observe(screen);
    this.#undo.push(() => observer.disconnect());
    const recolour = () => {
      if (this.#terminal) {
        this.#terminal.options.theme = colours();
      }
    };
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", recolour);
    this.#undo.push(() => scheme.removeEventListener("change", recolour));
    const themes = new MutationObserver(recolour);
    themes.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    this.#undo.push(() => themes.disconnect());
    this.#connect();
  }

  disconnectedCallback() {
    this.#over = true;
    clearTimeout(this.#timer);
    this.#undo.splice(0).forEach((undo) => undo());
    this.#socket?.close();
    this.#terminal?.dispose();
    this.#terminal = undefined;
    this.#fit = undefined;
    this.#id = undefined;
  }

  #connect() {
    const address = new URL(this.getAttribute("src"), location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    address.searchParams.set("cols", this.#terminal.cols);
    address.searchParams.set("rows", this.#terminal.rows);
    if (this.#id) {
      address.searchParams.set("terminal_id", this.#id);
    }
    const socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    let ended = false;
    socket.onmessage = ({ data }) => {
      if (socket !== this.#socket || !this.#terminal) {
        return;
      }
      if (typeof data !== "string") {
        this.#show(new Uint8Array(data));
        return;
      }
      const said = JSON.parse(data);
      if (said.type === "terminal") {
        if (said.reattached) {
          // What was shown comes again from the server.
          this.#terminal.reset();
        }
        this.#replay = said.replayed_bytes ?? 0;
        this.#id = said.terminal_id;
        this.#lostAt = 0;
        this.#retryMs = RETRY_FIRST_MS;
        this.#say("");
        this.#tell({ type: "resize", cols: this.#terminal.cols, rows: this.#terminal.rows });
        this.setAttribute("data-ready", "");
      } else if (said.type === "exit") {
        ended = true;
        this.#end(`The shell ended with exit code ${said.exit_code}.`);
      } else if (said.type === "error") {
        ended = true;
        this.#end(said.message);
      }
    };
    socket.onclose = () => {
      if (socket !== this.#socket || ended || this.#over) {
        return;
      }
      this.removeAttribute("data-ready");
      const now = performance.now();
      this.#lostAt ||= now;
      if (!this.#id || now - this.#lostAt > GIVE_UP_MS) {
        this.#end(this.#id ? "The connection was lost for too long." : "The terminal could not be opened.");
        return;
      }
      this.#say("Connection lost. Coming back…");
      this.#timer = setTimeout(() => this.#connect(), this.#retryMs);
      this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MOST_MS);
    };
  }

  #end(text) {
    this.#id = undefined;
    this.removeAttribute("data-ready");
    this.#say(text);
    const again = document.createElement("button");
    again.type = "button";
    again.className = "button button-small";
    again.textContent = "Open a new one";
    again.onclick = () => {
      this.#lostAt = 0;
      this.#terminal?.reset();
      this.#say("Connecting…");
      this.#connect();
      this.#terminal?.focus();
    };
    this.#status.append(" ", again);
  }

  #say(text) {
    this.#status.textContent = text;
    this.#status.hidden = text === "";
  }

  #show(bytes) {
    const again = bytes.subarray(0, this.#replay);
    const fresh = bytes.subarray(again.length);
    this.#replay -= again.length;
    if (again.length > 0) {
      const terminal = this.#terminal;
      this.#replaying++;
      terminal.write(again, () => {
        if (terminal === this.#terminal) {
          this.#replaying--;
        }
      });
    }
    if (fresh.length > 0) {
      this.#terminal.write(fresh);
    }
  }

  #type(bytes) {
    if (this.#replaying === 0) {
      this.#send(bytes);
    }
  }

  #send(bytes) {
    if (this.#socket?.readyState === WebSocket.OPEN) {
      this.#socket.send(bytes);
    }
  }

  #tell(value) {
    if (this.#socket?.readyState === WebSocket.OPEN) {
      this.#socket.send(JSON.stringify(value));
    }
  }
}

if (!customElements.get("session-terminal")) {
  customElements.define("session-terminal", SessionTerminal);
}
