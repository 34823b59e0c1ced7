import { readFileSync } from 'node:fs';
import { createEnvironment, alive, expect, signIn, test } from '../fixtures';

const quantile = (values: number[], q: number) =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(q * values.length))];

test('a log of 100,000 lines', async ({ page, browser, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, {
    name: 'large log',
    script: 'seq -f "line %.0f of a long log" 1 100000\necho the end',
    test: true,
  });
  await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 120_000 });
  await page.getByRole('link', { name: 'Open its page' }).click();
  await expect(page).toHaveURL(/\/runs\//);
  const address = page.url();

  // From the navigation to the first frame after the newest line is laid out in view.
  await page.addInitScript(() => {
    const state = window as unknown as { newest?: number; live?: number };
    const look = () => {
      const view = document.querySelector('.log-view');
      const row = view?.querySelector('.log-rows')?.lastElementChild;
      if (view && row?.textContent?.length) {
        const [outer, inner] = [view.getBoundingClientRect(), row.getBoundingClientRect()];
        if (inner.bottom <= outer.bottom + 20) state.newest ??= performance.now();
        if (view.querySelector('.log-space')) state.live ??= performance.now();
      }
      if (!state.live) requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
  const newest: number[] = [];
  const live: number[] = [];
  for (let i = 0; i < 10; i++) {
    await page.goto(address);
    await page.waitForFunction(() => (window as unknown as { live?: number }).live);
    newest.push(await page.evaluate(() => (window as unknown as { newest: number }).newest));
    live.push(await page.evaluate(() => (window as unknown as { live: number }).live));
  }
  await alive(page);
  console.log(
    `100,000 lines, newest screen: p50 ${quantile(newest, 0.5).toFixed(0)} ms, most ${Math.max(...newest).toFixed(0)} ms; live: p50 ${quantile(live, 0.5).toFixed(0)} ms`,
  );

  const scrolled = await page.evaluate(async () => {
    const view = document.querySelector('.log-view') as HTMLElement;
    const frame = () => new Promise<number>((resolve) => requestAnimationFrame(resolve));
    const frames: number[] = [];
    let nodes = 0;
    let before = await frame();
    const step = async (top: number) => {
      view.scrollTop = top;
      const now = await frame();
      frames.push(now - before);
      before = now;
      nodes = Math.max(nodes, view.querySelectorAll('*').length);
    };
    // As a wheel does, upwards from the end; then jumps, as with the scroll bar.
    for (let i = 0; i < 600; i++) await step(view.scrollTop - 240);
    const wheel = frames.splice(0);
    for (let i = 0; i < 200; i++) await step(((i * 7919) % 200) * (view.scrollHeight / 200));
    return { wheel, jumps: frames, nodes };
  });
  console.log(
    `scrolling 600 steps: longest frame ${Math.max(...scrolled.wheel).toFixed(0)} ms, p95 ${quantile(scrolled.wheel, 0.95).toFixed(0)} ms; ` +
      `200 jumps: longest ${Math.max(...scrolled.jumps).toFixed(0)} ms, p95 ${quantile(scrolled.jumps, 0.95).toFixed(0)} ms; most nodes in the log: ${scrolled.nodes}`,
  );
  // A tab of its own that has shown this page alone; everything is here after the copy.
  const tab = await page.context().newPage();
  await page.close();
  await tab.goto(address);
  await alive(tab);
  await tab.getByRole('button', { name: 'Copy', exact: true }).click();
  await expect(tab.getByText('Copied')).toBeAttached({ timeout: 60_000 });
  const cdp = await tab.context().newCDPSession(tab);
  await cdp.send('HeapProfiler.collectGarbage');
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = (await session.send('SystemInfo.getProcessInfo')) as {
    processInfo: { type: string; id: number }[];
  };
  const resident = processInfo
    .filter((process) => process.type === 'renderer')
    .map((process) => readFileSync(`/proc/${process.id}/smaps_rollup`, 'utf8'))
    .map((text) => /^Private_Dirty:\s+(\d+)/m.exec(text)?.[1] ?? '0')
    .map((kib) => Number(kib) / 1024);
  const heap = await tab.evaluate(
    () => (performance as unknown as { memory: { usedJSHeapSize: number } }).memory.usedJSHeapSize / 1048576,
  );
  console.log(
    `with all 100,000 lines fetched: JS heap ${heap.toFixed(1)} MiB, the tab's process ${Math.max(...resident).toFixed(0)} MiB of its own`,
  );

  const search = await tab.evaluate(async () => {
    const view = document.querySelector('.log-view') as HTMLElement;
    view.focus();
    view.dispatchEvent(new KeyboardEvent('keydown', { key: 'f', bubbles: true }));
    await new Promise((resolve) => requestAnimationFrame(resolve));
    const field = document.querySelector('#log-find') as HTMLInputElement;
    const start = performance.now();
    field.value = '99';
    field.dispatchEvent(new Event('input', { bubbles: true }));
    while (!/of/.test(document.querySelector('.log-find-count')?.textContent ?? ''))
      await new Promise((resolve) => requestAnimationFrame(resolve));
    return performance.now() - start;
  });
  console.log(`finding in 100,000 lines: ${search.toFixed(0)} ms, 150 ms of it waiting for more letters`);
});
