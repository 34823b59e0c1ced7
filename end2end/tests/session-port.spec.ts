// A page of a program in a session, in a real browser: what it can do to the console it is shown by, and to whoever looks.
import { type Groundwork, Proxy } from '../groundwork';
import { admin, another, expect, signIn, test } from '../fixtures';

const program = `
import http.server
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'<!doctype html><title>inside</title><p>inside</p><iframe name="frame"></iframe>'
        if self.path.endswith('.js'): body = b'self.onfetch = null'
        self.send_response(200)
        self.send_header('content-type', 'text/javascript' if self.path.endswith('.js') else 'text/html')
        self.send_header('set-cookie', 'groundwork_session=stolen; Path=/')
        self.send_header('clear-site-data', '"*"')
        self.send_header('service-worker-allowed', '/')
        self.send_header('content-length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(('127.0.0.1', 8080), Answer).serve_forever()
`;

type Call = (method: string, path: string, body?: unknown) => Promise<Record<string, string>>;

/** A running session of a new environment, and the API as an admin has it. */
async function started(groundwork: Groundwork, environment: object): Promise<{ api: Call; id: string; session: string }> {
  const key = groundwork.command('admin', 'create-api-key', '--email', admin.email, '--role', 'admin');
  const api: Call = async (method, path, body) => {
    const answer = await fetch(`${groundwork.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    expect(answer.ok, `${path}: ${answer.status}`).toBe(true);
    return answer.json() as Promise<Record<string, string>>;
  };
  const made = await api('POST', '/managed-agents/v1/environments', { ...environment, pvc_size_gi: 1 });
  const { session_id: id } = await api('POST', '/groundwork/v1/sessions', { environment_id: made.environment_id });
  const session = `/groundwork/v1/sessions/${id}`;
  await expect.poll(async () => (await api('GET', session)).status, { timeout: 60_000 }).toBe('running');
  return { api, id, session };
}

/** Gives the session's disk back, so that later stories find the server as they left it. */
async function ended({ api, session }: { api: Call; session: string }): Promise<void> {
  await api('DELETE', session);
  const gone = async () => ((await api('GET', '/groundwork/v1/sessions')).sessions as unknown as { session_id: string }[])
    .every((one) => !session.endsWith(one.session_id));
  await expect.poll(gone, { timeout: 30_000 }).toBe(true);
}

test('a page of a program in a session reads nothing of the console and does nothing as who looks', async ({
  browser,
  groundwork,
}) => {
  const shown = await started(groundwork, { name: 'shows a page', http_port: 8080 });
  const { api, id, session } = shown;
  await api('POST', `${session}/exec`, {
    argv: ['bash', '-c', 'cat >serve.py; setsid python3 serve.py >log 2>&1 </dev/null &'],
    stdin: program,
  });
  const listens = 'for i in $(seq 200); do (: </dev/tcp/127.0.0.1/8080) 2>/dev/null && exit 0; sleep 0.1; done; exit 1';
  expect((await api('POST', `${session}/exec`, { command: listens })).exit_code).toBe(0);

  const { context, page } = await another(browser);
  await signIn(page, groundwork.url);
  const answer = await page.goto(`${groundwork.url}/sessions/${id}/http/a/page`);
  expect(answer?.status()).toBe(200);
  await expect(page.getByText('inside', { exact: true })).toBeVisible();
  expect(new URL(page.url()).pathname).toMatch(/^\/s\/[\w-]+\/a\/page$/);

  const could = await page.evaluate(async (id) => {
    const attempt = async (what: () => unknown): Promise<string> => {
      try {
        return `did: ${await what()}`;
      } catch (error) {
        return (error as Error).name;
      }
    };
    const asked = (address: string, options?: RequestInit) =>
      attempt(async () => (await fetch(address, options)).status);
    return {
      origin: self.origin,
      cookies: await attempt(() => document.cookie),
      setCookie: await attempt(() => (document.cookie = 'groundwork_session=stolen; path=/')),
      storage: await attempt(() => localStorage.length),
      databases: await attempt(() => indexedDB.open('x')),
      worker: await attempt(() => navigator.serviceWorker.register('worker.js', { scope: '/' })),
      read: await asked('/environments', { credentials: 'include' }),
      call: await asked('/groundwork/v1/sessions', { credentials: 'include' }),
      post: await asked('/fn/delete-session', {
        method: 'POST',
        credentials: 'include',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: `session_id=${id}`,
      }),
      popup: await attempt(() => String(window.open('/environments'))),
      terminal: await new Promise((resolve) => {
        const socket = new WebSocket(`${location.origin.replace('http', 'ws')}/sessions/${id}/terminal`);
        socket.onopen = () => resolve('did: open');
        socket.onerror = () => resolve('refused');
      }),
      // Its own files it can read.
      own: await asked('other'),
    };
  }, id);
  expect(could).toEqual({
    origin: 'null',
    cookies: 'SecurityError',
    setCookie: 'SecurityError',
    storage: 'SecurityError',
    databases: 'SecurityError',
    worker: expect.stringMatching(/^(SecurityError|TypeError)$/),
    read: 'TypeError',
    call: 'TypeError',
    post: 'TypeError',
    popup: 'did: null',
    terminal: 'refused',
    own: 'did: 200',
  });
  // A form is sent as a page would send it, with whatever the browser adds; it is refused.
  const form = page.waitForResponse((response) => response.url().endsWith('/fn/delete-session'));
  await page.evaluate((id) => {
    const made = document.createElement('form');
    Object.assign(made, { method: 'post', action: '/fn/delete-session', target: 'frame' });
    made.append(Object.assign(document.createElement('input'), { name: 'session_id', value: id }));
    document.body.append(made);
    made.submit();
  }, id);
  expect((await form).status()).toBe(403);

  // Nothing was deleted, and whoever looked is still signed in.
  expect((await api('GET', session)).status).toBe('running');
  expect((await page.goto(`${groundwork.url}/environments`))?.status()).toBe(200);
  await expect(page).toHaveURL(/\/environments$/);
  await context.close();
  await ended(shown);
});

test('what a terminal is shown again is not answered again', async ({ browser, groundwork }) => {
  test.setTimeout(150_000);
  const proxy = new Proxy(groundwork);
  await proxy.start();
  const { context, page } = await another(browser);
  const asks = await started(groundwork, { name: 'asks its terminal' });
  await signIn(page, proxy.url);
  await page.goto(`${proxy.url}/sessions/${asks.id}`);
  const ready = page.locator('session-terminal[data-ready]');
  await expect(ready).toBeVisible({ timeout: 60_000 });
  const screen = page.locator('.xterm-rows');
  const type = async (line: string): Promise<void> => {
    await page.locator('session-terminal .xterm-helper-textarea').focus();
    await page.keyboard.type(`${line}\n`);
  };
  // A program asks whether the terminal is well: its answer has four characters, and comes as if it were typed.
  await type(`mark=still-here; printf '\\033[5n'; read -rsn4 -t 20 x; echo "answer: $((\${#x} + 10))"`);
  await expect(screen).toContainText('answer: 14');
  // The question is shown again after a lost connection, while something reads what is typed.
  await type(`echo wait$((1+1)); read -rsn4 -t 12 x; echo "answer: $((\${#x} + 20))"`);
  await expect(screen).toContainText('wait2');
  // Set again by the new connection.
  await ready.evaluate((terminal) => terminal.removeAttribute('data-ready'));
  expect(proxy.cutAll()).toBe(true);
  await expect(ready).toBeVisible({ timeout: 30_000 });
  await expect(screen).toContainText(/answer: 2\d/, { timeout: 20_000 });
  await expect(screen).toContainText('answer: 20');
  // It is the same shell.
  await type('echo "mark: $mark"');
  await expect(screen).toContainText('mark: still-here');
  await context.close();
  proxy.stop();
  await ended(asks);
});
