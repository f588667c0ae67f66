'use strict';
(() => {
  const root = document.documentElement;
  root.classList.add('js');

  // A tip for whatever has one: by pointer, by tap, and by the arrow keys in a chart that has the focus.
  const tip = document.createElement('div');
  tip.id = 'tip';
  tip.hidden = true;
  tip.setAttribute('role', 'status');
  document.body.append(tip);
  const show = (element) => {
    const box = element.getBoundingClientRect();
    tip.textContent = element.dataset.tip;
    tip.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = tip;
    const left = Math.min(Math.max(box.left + box.width / 2 - width / 2, 8), root.clientWidth - width - 8);
    const top = box.top - height - 8 < 0 ? box.bottom + 8 : box.top - height - 8;
    tip.style.left = `${left + scrollX}px`;
    tip.style.top = `${top + scrollY}px`;
  };
  const hide = () => { tip.hidden = true; };
  const tipped = (event) => event.target instanceof Element && event.target.closest('[data-tip]');
  for (const name of ['pointerover', 'click', 'focusin']) {
    document.addEventListener(name, (event) => {
      const element = tipped(event);
      if (element) show(element); else hide();
    });
  }
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') hide();
    const chart = event.target instanceof Element && event.target.closest('svg.chart');
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!chart || !step) return;
    const points = [...chart.querySelectorAll('[data-tip]')];
    if (!points.length) return;
    event.preventDefault();
    const at = points.findIndex((point) => point.classList.contains('at'));
    points[at]?.classList.remove('at');
    const next = points[(Math.max(at, step > 0 ? -1 : 0) + step + points.length) % points.length];
    next.classList.add('at');
    next.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    show(next);
  });

  // What is saved is the chart as it was written; what is shown has no second tip of the browser's own.
  for (const chart of document.querySelectorAll('figure svg')) {
    const text = new XMLSerializer().serializeToString(chart);
    const link = chart.closest('figure').querySelector('a.svg');
    link.addEventListener('click', () => {
      link.href = URL.createObjectURL(new Blob([text], { type: 'image/svg+xml' }));
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    });
    chart.tabIndex = 0;
    for (const title of chart.querySelectorAll('[data-tip] > title')) title.remove();
  }

  // Light, dark, or as the system has it: the same rules, asked for by another condition. Paper is always light.
  const dark = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])
    .filter((rule) => rule instanceof CSSMediaRule && rule.conditionText.includes('prefers-color-scheme'))
    .map((rule) => ({ rule, own: rule.media.mediaText }));
  const modes = ['system', 'light', 'dark'];
  const button = document.querySelector('button.mode');
  let mode = 0;
  button.addEventListener('click', () => {
    mode = (mode + 1) % modes.length;
    for (const { rule, own } of dark) rule.media.mediaText = [own, 'not all', 'screen'][mode];
    root.style.colorScheme = ['', 'light', 'dark'][mode];
    button.textContent = `Colours: ${modes[mode]}`;
  });

  // Paper shows everything; what was closed on the screen is closed again after it.
  let opened = [];
  addEventListener('beforeprint', () => {
    opened = [...document.querySelectorAll('details:not([open])')];
    for (const details of opened) details.open = true;
  });
  addEventListener('afterprint', () => {
    for (const details of opened) details.open = false;
    opened = [];
  });
})();
