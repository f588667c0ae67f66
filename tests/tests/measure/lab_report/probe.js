// Inspects a report in a browser, and posts the observations to the parent page as JSON.
(async () => {
  const later = (wait) => new Promise((resolve) => setTimeout(resolve, wait));
  const root = document.documentElement;
  const colours = () => {
    const paper = document.querySelector('svg.chart .paper');
    return [getComputedStyle(document.body).backgroundColor, paper && getComputedStyle(paper).fill];
  };
  const tip = () => {
    const element = document.getElementById('tip');
    const box = element.getBoundingClientRect();
    return { text: element.textContent, shown: !element.hidden && box.left >= 0 && box.right <= innerWidth };
  };
  const seen = { width: innerWidth, scrollWidth: root.scrollWidth, colours: colours() };
  seen.charts = document.querySelectorAll('figure svg.chart').length;
  seen.figures = [...document.querySelectorAll('figure')].map((figure) => figure.id);
  seen.letters = [...new Set([...document.querySelectorAll('svg.chart text')].map((text) => getComputedStyle(text).fontSize))].sort();
  seen.smallest = Math.min(...[...document.querySelectorAll('figure svg.chart')]
    .map((chart) => 12 * chart.getBoundingClientRect().width / chart.viewBox.baseVal.width));
  seen.cut = [...document.querySelectorAll('figure, .picture')]
    .filter((element) => element.scrollWidth > element.clientWidth + 1).map((element) => element.id || element.className);
  seen.wider = [...document.querySelectorAll('body *')]
    .filter((element) => !element.closest('.wide, pre, svg, #tip') && element.getBoundingClientRect().right > innerWidth + 1)
    .map((element) => element.outerHTML.slice(0, 80));

  seen.labels = [...new Set([...document.querySelectorAll('.findings td[data-label]')]
    .filter((cell) => getComputedStyle(cell, '::before').content.includes(cell.dataset.label))
    .map((cell) => cell.dataset.label))].sort();

  const points = [...document.querySelectorAll('svg.chart [data-tip]')];
  seen.tips = points.slice(0, 40).map((point) => {
    point.dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
    return { ...tip(), wanted: point.dataset.tip };
  });
  document.body.dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
  seen.hidden = !tip().shown;
  document.querySelector('svg.chart').focus();
  document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
  seen.byKey = tip();
  const at = document.querySelector('svg.chart .at');
  seen.at = at && parseFloat(getComputedStyle(at).strokeWidth);
  document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
  seen.escaped = !tip().shown;

  const blobs = [];
  URL.createObjectURL = (blob) => { blobs.push(blob); return '#saved'; };
  for (const link of document.querySelectorAll('a.svg')) link.click();
  const texts = await Promise.all(blobs.map((blob) => blob.text()));
  seen.svgs = texts.map((text) => {
    const drawing = new DOMParser().parseFromString(text, 'image/svg+xml');
    return { root: drawing.documentElement.nodeName, titles: drawing.querySelectorAll('[data-tip] > title').length };
  });

  const button = document.querySelector('button.mode');
  seen.modes = [];
  for (let click = 0; click < 3; click += 1) {
    button.click();
    await later(0);
    seen.modes.push([button.textContent, ...colours()]);
  }
  const closed = () => document.querySelectorAll('details:not([open])').length;
  seen.closed = [closed()];
  for (const event of ['beforeprint', 'afterprint']) {
    dispatchEvent(new Event(event));
    seen.closed.push(closed());
  }
  seen.errors = window.errors;
  parent.postMessage(JSON.stringify(seen), '*');
})().catch((error) => parent.postMessage(JSON.stringify({ errors: [String(error)] }), '*'));
