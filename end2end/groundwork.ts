// Starts the real server on a data directory of its own, for the stories.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { type Server, type Socket, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const images = process.env.GROUNDWORK_TEST_IMAGES ?? '/var/lib/groundwork-test/images';
const binary = process.env.GROUNDWORK_BIN ?? '../target/release/groundwork';

/**
 * A free port below those that the system gives to whoever asks for any, and of this worker's own: the server comes back to it
 * after a restart.
 */
async function freePort(): Promise<number> {
  const worker = Number(process.env.TEST_PARALLEL_INDEX ?? 0) % 8;
  const port = 15_000 + worker * 2_000 + randomInt(2_000);
  const free = await new Promise<boolean>((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
  return free ? port : freePort();
}

export class Groundwork {
  readonly data: string;
  url = '';
  output = '';
  /** Whether the story has cut connections: browsers note that. */
  cuts = false;
  private port = 0;
  private child?: ChildProcess;

  constructor() {
    this.data = mkdtempSync(join(tmpdir(), 'groundwork-e2e-'));
    mkdirSync(join(this.data, 'images'), { recursive: true });
    if (!existsSync(join(images, 'runner/small/image.json'))) {
      throw new Error(`The small runner image is not under ${images}: run make test, or set GROUNDWORK_TEST_IMAGES.`);
    }
    // Hard links: the image is read only, and copying it would take longer than the stories.
    execFileSync('cp', ['-al', join(images, 'runner'), join(this.data, 'images/runner')]);
    writeFileSync(join(this.data, 'config.toml'), '[runner]\nimage = "groundwork/runner:small"\n');
  }

  /** Starts the server and waits until it is ready for runs. */
  async start(env: Record<string, string> = {}): Promise<void> {
    if (this.port === 0) this.port = await freePort();
    this.url = `http://127.0.0.1:${this.port}`;
    const child = spawn(
      binary,
      ['serve', '--listen', `127.0.0.1:${this.port}`, '--data', this.data, '--config', join(this.data, 'config.toml')],
      { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] },
    );
    this.child = child;
    child.stdout?.on('data', (chunk) => (this.output += chunk));
    child.stderr?.on('data', (chunk) => (this.output += chunk));
    const deadline = Date.now() + 60_000;
    for (;;) {
      const ended = child.exitCode ?? child.signalCode;
      if (ended !== null) throw new Error(`the server ended with ${ended}:\n${this.output}`);
      try {
        if ((await fetch(`${this.url}/readyz`)).ok) return;
      } catch {
        // Not listening yet.
      }
      if (Date.now() > deadline) throw new Error(`the server is not ready:\n${this.output}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** The one-time link that a first start prints. */
  setupLink(): string {
    const found = /https?:\/\/\S+\/setup\?token=\S+/.exec(this.output);
    if (!found) throw new Error(`no setup link in:\n${this.output}`);
    return found[0].replace(/^https?:\/\/[^/]+/, this.url);
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    const child = this.child;
    this.child = undefined;
    this.cuts = true;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await ended;
  }

  /** Runs a subcommand of the same binary on the same data. */
  command(...args: string[]): string {
    return execFileSync(binary, args, {
      env: { ...process.env, GROUNDWORK_DATA: this.data },
      encoding: 'utf8',
    }).trim();
  }

  async remove(): Promise<void> {
    await this.stop();
    rmSync(this.data, { recursive: true, force: true });
  }
}

/**
 * A place in a setup script where it waits until the story has seen what it wants to see, however slow the browser is: a
 * process of its own length of sleep, which the story ends.
 */
export class Wait {
  private readonly seconds = `600.${randomInt(1_000_000_000)}`;

  /** The command. It passes, and says nothing, when it is ended. */
  readonly command = `{ sleep ${this.seconds} || true; }`;

  /** A loop that does this for as long as it lasts. */
  during(command: string): string {
    return `sleep ${this.seconds} & waits=$!; while kill -0 $waits 2>/dev/null; do ${command}; done`;
  }

  /** Lets the script go on. */
  end(): void {
    const wanted = `sleep\0${this.seconds}\0`;
    const found = readdirSync('/proc').filter((entry) => {
      try {
        return /^\d+$/.test(entry) && readFileSync(`/proc/${entry}/cmdline`, 'utf8') === wanted;
      } catch {
        // It has ended meanwhile.
        return false;
      }
    });
    if (found.length === 0) throw new Error('the script does not wait');
    // Ended by this one, bash does not say so.
    for (const process_ of found) process.kill(Number(process_), 'SIGPIPE');
  }
}

/** Stands between browser and server, and cuts every connection when told to. */
export class Proxy {
  url = '';
  cut = 0;
  /** Whether anything of the server's has come through since the last cut. */
  carried = false;
  private readonly open = new Set<Socket>();
  private server?: Server;

  constructor(private readonly groundwork: Groundwork) {}

  async start(): Promise<void> {
    const target = new URL(this.groundwork.url);
    const server = createServer((near) => {
      const far = connect(Number(target.port), target.hostname);
      const end = () => {
        near.destroy();
        far.destroy();
      };
      for (const socket of [near, far]) {
        this.open.add(socket);
        socket.on('error', end);
        socket.on('close', () => {
          this.open.delete(socket);
          end();
        });
      }
      far.on('data', () => (this.carried = true));
      near.pipe(far).pipe(near);
    });
    this.server = server;
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    this.url = `http://127.0.0.1:${address.port}`;
  }

  /** Cuts what is open; answers whether anything was. */
  cutAll(): boolean {
    this.groundwork.cuts = true;
    const any = this.open.size > 0;
    for (const socket of this.open) socket.destroy();
    if (any) this.cut++;
    this.carried = false;
    return any;
  }

  stop(): void {
    for (const socket of this.open) socket.destroy();
    this.server?.close();
  }
}
