// What the stories share: one server for a file's stories, a page that fails the story on any console error, and people.
import { appendFileSync } from 'node:fs';
import AxeBuilder from '@axe-core/playwright';
import { type Browser, type BrowserContext, type Locator, type Page, type Request, test as base, expect } from '@playwright/test';
import { Groundwork } from './groundwork';

export const admin = { email: 'admin@example.test', password: 'the quick brown fox 1' };

export const test = base.extend<{ complaints: string[] }, { groundwork: Groundwork }>({
  groundwork: [
    async ({}, use) => {
      const groundwork = new Groundwork();
      await groundwork.start({
        GROUNDWORK_ADMIN_EMAIL: admin.email,
        GROUNDWORK_ADMIN_PASSWORD: admin.password,
      });
      await use(groundwork);
      await groundwork.remove();
    },
    { scope: 'worker', timeout: 90_000 },
  ],
  // Errors in the browser's console, a failed hydration among them, fail the story.
  complaints: [
    async ({ page, groundwork }, use) => {
      const complaints: string[] = [];
      groundwork.cuts = false;
      watch(page, complaints, groundwork);
      await measure(page.context());
      await use(complaints);
      expect(complaints).toEqual([]);
    },
    { auto: true },
  ],
});

export { expect };

export function watch(page: Page, complaints: string[], groundwork?: Groundwork): void {
  // A page that is left while a piece of it comes stops there: the browser notes what it has cut, then come one panic and
  // one error. Only of a page that is left: from the request of another document until that one is there.
  const documents = new Set<Request>();
  let owed = 0;
  page.on('request', (request) => {
    if (request.isNavigationRequest() && request.frame() === page.mainFrame()) documents.add(request);
  });
  page.on('requestfailed', (request) => documents.delete(request));
  page.on('domcontentloaded', () => {
    documents.clear();
    owed = 0;
  });
  page.on('pageerror', (error) => {
    if (error.message === 'unreachable' && owed > 0) owed--;
    else complaints.push(`page error: ${error.message}`);
  });
  page.on('console', (message) => {
    const text = message.text();
    // A refusal is an answer of ours; that the browser notes its status is no error of the page.
    const refusal = /Failed to load resource: the server responded with a status of 4\d\d/.test(text);
    // The browser's own note of a connection that the story has cut.
    const cut = groundwork?.cuts && /^Failed to load resource: net::ERR_/.test(text);
    if (/Response body loading was aborted|Failed to fetch[^]*__wasm_split/.test(text) && documents.size > 0) {
      owed = 2;
      return;
    }
    if (text.startsWith('panicked at app/src/pages/lazy.rs') && owed > 0) {
      owed--;
      return;
    }
    if ((message.type() === 'error' && !refusal && !cut) || /hydrat/i.test(text)) complaints.push(text);
  });
}

/**
 * Where `GROUNDWORK_INTERACTIONS` names a file: notes there that a page ran scripts, and how long each interaction took until
 * its next paint, milliseconds. Browsers tell of those that took 16 ms or more, and of a page's first one in any case.
 */
async function measure(context: BrowserContext): Promise<void> {
  const file = process.env.GROUNDWORK_INTERACTIONS;
  if (!file) return;
  await context.addInitScript(() => {
    const load = Math.round(performance.timeOrigin);
    const tell = (entries: PerformanceEntryList) => {
      for (const entry of entries as (PerformanceEntry & { interactionId?: number })[]) {
        if (entry.interactionId || entry.entryType === 'first-input') {
          console.debug(`interaction ${load}-${entry.interactionId} ${entry.duration} ${entry.name}`);
        }
      }
    };
    console.debug('interaction page');
    const observer = new PerformanceObserver((list) => tell(list.getEntries()));
    observer.observe({ type: 'event', durationThreshold: 16, buffered: true } as PerformanceObserverInit);
    observer.observe({ type: 'first-input', buffered: true });
    // What a click that leads away took is not told of otherwise.
    addEventListener('pagehide', () => tell(observer.takeRecords()));
  });
  context.on('console', (message) => {
    if (message.type() === 'debug' && message.text().startsWith('interaction ')) {
      appendFileSync(file, `${test.info().title}\t${message.text()}\n`);
    }
  });
}

export async function signIn(page: Page, url: string, who = admin): Promise<void> {
  await page.goto(`${url}/sign-in`);
  await page.getByLabel('E-mail address').fill(who.email);
  await page.getByLabel('Password').fill(who.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page).toHaveURL(/\/environments/);
}

/**
 * Waits until the page is alive: what it shows by then is what a reader can use. For pages that the browser has just loaded:
 * one that is reached from within the console is alive as soon as its own content is there, which stories wait for, because
 * the address changes before it.
 */
export async function alive(page: Page): Promise<void> {
  await page.locator('body[data-alive]').waitFor({ state: 'attached' });
}

/** Presses what sends a plain form, and waits for the page that answers: going elsewhere before that would take it back. */
export async function sent(page: Page, button: Locator): Promise<void> {
  const answered = page.waitForEvent('framenavigated', (frame) => frame === page.mainFrame());
  await button.click();
  await answered;
}

/** Creates an environment through the form and stays on its page. */
export async function createEnvironment(
  page: Page,
  url: string,
  what: { name: string; script?: string; timeout?: number; test?: boolean },
): Promise<void> {
  await page.goto(`${url}/environments/new`);
  await alive(page);
  await page.locator('#name').fill(what.name);
  if (what.script !== undefined) await page.getByLabel('Setup script').fill(what.script);
  await smallDisk(page);
  if (what.timeout !== undefined) await page.getByLabel('Timeout (seconds)').fill(String(what.timeout));
  await page.getByRole('button', { name: what.test ? 'Save and test setup' : 'Create environment', exact: true }).click();
  await environmentPage(page);
}

/** A disk of 2 GiB on the form: sandboxes take their whole disk at once, and stories run beside each other. */
export async function smallDisk(page: Page): Promise<void> {
  await page.getByText('Storage and lifecycle').click();
  await page.getByLabel('Workspace disk (GiB)').fill('2');
}

/** Waits for an environment's page, whose address comes before it, and whose form is like the one that creates. */
export async function environmentPage(page: Page): Promise<void> {
  await expect(page).toHaveURL(/\/environments\/[0-9a-f]{8}-[0-9a-f-]{27}(#|$)/);
  await expect(page.getByRole('link', { name: 'History', exact: true })).toBeVisible();
}

/** Starts a session with this button and waits for its page: that of the environment has a *Delete* too. */
export async function startSession(page: Page, button: Locator): Promise<void> {
  await button.click();
  await expect(page).toHaveURL(/\/sessions\/[0-9a-f-]{36}$/);
  await expect(page.getByRole('heading', { level: 1, name: /^Session / })).toBeVisible();
}

/** No violation of WCAG 2.2 AA that axe can see, in both themes, and nothing wider than a telephone. */
export async function accessible(page: Page): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    // Letters of one theme on the other's ground, or half way between them, are nobody's page.
    await expect.poll(() => page.evaluate((scheme) => matchMedia(`(prefers-color-scheme: ${scheme})`).matches, colorScheme)).toBe(true);
    const moving = () =>
      page.evaluate(() =>
        document
          .getAnimations()
          .filter((animation) => animation instanceof CSSTransition && animation.playState === 'running')
          .map(({ effect }) => (effect as KeyframeEffect).target?.outerHTML.slice(0, 200)),
      );
    await expect.poll(moving).toEqual([]);
    const { violations } = await new AxeBuilder({ page })
      .withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'])
      .analyze();
    const found = violations.map((v) => `${colorScheme} ${v.id}: ${v.nodes.map((n) => n.target.join(' ')).join(', ')}`);
    expect(found, page.url()).toEqual([]);
  }
  await fits(page);
}

/** Nothing is wider than a telephone, nor than a tablet, whose sidebar stands beside the page. */
async function fits(page: Page): Promise<void> {
  const before = page.viewportSize();
  for (const width of [360, 768]) {
    await page.setViewportSize({ width, height: 740 });
    // What scripts measure, like a terminal, fits itself in a moment later.
    await expect
      .poll(() => page.evaluate(() => document.documentElement.scrollWidth), `${page.url()} at ${width} px`)
      .toBeLessThanOrEqual(width);
  }
  if (before) await page.setViewportSize(before);
}

/** A fresh browser of another person, who may live in another time zone. */
export async function another(
  browser: Browser,
  scripting = true,
  timezoneId?: string,
): Promise<{ context: BrowserContext; page: Page }> {
  const context = await browser.newContext({ javaScriptEnabled: scripting, timezoneId });
  await measure(context);
  return { context, page: await context.newPage() };
}
