const data = JSON.parse(document.getElementById('corpus').textContent);
const docs = data.documents, STEP = 100, FIRST_WORDS = 12;
const byId = name => document.getElementById(name);
const form = byId('filters'), list = document.querySelector('#list tbody'), more = byId('more');
const checked = docs.some(d => d.verdict !== null && d.verdict !== 'unchecked');
const fold = text => String(text ?? '').toLowerCase();
const number = value => value.toLocaleString('en');
const state = { word: null, target: null, shown: STEP, sort: ['', false], wordSort: ['total', false], open: new Set() };

function make(kind, text, name) {
  const element = document.createElement(kind);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
}
function button(text, action, pressed) {
  const element = make('button', text);
  element.type = 'button';
  element.addEventListener('click', action);
  if (pressed !== undefined) element.setAttribute('aria-pressed', pressed);
  return element;
}

const choices = [['label', d => d.label], ['prediction', d => d.prediction],
  ['verdict', d => checked ? d.verdict : null], ['status', d => d.status], ...data.facets.map((name, at) => [name, d => d.facets[at]])];
const selects = choices.map(([name, value]) => {
  const counts = new Map();
  for (const d of docs) if (value(d) !== null) counts.set(value(d), (counts.get(value(d)) ?? 0) + 1);
  const label = make('label', name), select = make('select');
  select.name = name;
  select.add(new Option('any', ''));
  const values = [...counts.keys()].sort((a, b) => a < b ? -1 : a > b ? 1 : 0);
  values.forEach((v, at) => select.add(new Option(`${v} (${number(counts.get(v))})`, String(at + 1))));
  label.append(select);
  if (values.length > 1) byId('facets').append(label);
  return { select, values, value };
});

function matches(d) {
  const f = form.elements;
  return (!f.outcome.value || String(d.correct) === f.outcome.value)
    && (f.least.value === '' || (d.probability ?? -1) >= f.least.value / 100)
    && (f.most.value === '' || (d.probability ?? 2) <= f.most.value / 100)
    && selects.every(({ select, values, value }) => !select.value || value(d) === values[select.value - 1])
    && fold(f.search.value).split(/\s+/).filter(Boolean).every(part => d.searched.includes(part));
}
for (const d of docs) {
  d.searched = [d.id, d.text, d.vocabulary, d.error, ...d.facets].map(fold).join(' ');
  d.marks = new Map(Object.entries(d.marks));
}

function totals(entry, chosen) {
  const sum = { word: entry.word, docs: 0, wrong: 0, right: 0, total: 0 };
  let inWrong = 0, inRight = 0;
  entry.at.forEach((place, at) => {
    if (!chosen[place]) return;
    const d = docs[place];
    sum.docs += 1; sum.total += entry.scores[at];
    if (d.correct === false) { sum.wrong += 1; inWrong += entry.scores[at]; }
    if (d.correct === true) { sum.right += 1; inRight += entry.scores[at]; }
  });
  const least = Math.max(1, Number(form.elements.count.value) || 1);
  sum.gap = Math.min(sum.wrong, sum.right) >= least ? inWrong / sum.wrong - inRight / sum.right : null;
  return sum;
}
function order(rows, [name, ascending], value) {
  if (!name) return rows;
  const missing = v => v === null || v === undefined;
  return [...rows].sort((a, b) => {
    const [x, y] = [value(a, name), value(b, name)];
    if (missing(x) || missing(y)) return missing(x) - missing(y);
    return (x < y ? -1 : x > y ? 1 : 0) * (ascending ? 1 : -1);
  });
}
function heads(row, names, sort, chosen) {
  row.replaceChildren(...names.map(([name, text, isNumber, title]) => {
    const th = make('th', undefined, isNumber ? 'n' : '');
    const [now, ascending] = sort;
    const by = button(text + (now === name ? (ascending ? ' ▲' : ' ▼') : ''), () => {
      sort[1] = now === name ? !ascending : !isNumber; sort[0] = name; chosen();
    });
    if (title) by.title = title;
    if (now === name) th.setAttribute('aria-sort', ascending ? 'ascending' : 'descending');
    th.append(by);
    return th;
  }));
}
const COLUMNS = [['word', 'word'], ['docs', 'docs', true], ['wrong', 'in wrong', true, 'Wrong documents with the word'],
  ['gap', 'wrong − right', true, 'Mean score in wrong documents minus mean score in right ones'],
  ['total', 'total score', true]];

function drawWords(chosen) {
  const f = form.elements, parts = [];
  const labelled = docs.some(d => d.correct !== null);
  const names = COLUMNS.filter(([name]) => labelled || (name !== 'wrong' && name !== 'gap'));
  data.words.forEach(({ target, words }) => {
    const rows = words.filter(entry => f.quiet.checked || !entry.quiet).map(entry => totals(entry, chosen))
      .filter(row => row.docs >= Math.max(1, Number(f.count.value) || 1));
    const sorted = order(rows, state.wordSort, (row, name) => row[name]);
    const largest = Math.max(...rows.map(row => Math.abs(row.total)), 0) || 1;
    const section = make('section'), table = make('table', undefined, 'words'), body = make('tbody');
    section.append(make('h2', data.words.length > 1 || data.signed ? `Words for ${target}` : `Words: ${target}`));
    heads(table.createTHead().insertRow(), names, state.wordSort, draw);
    const shown = state.open.has(target) ? sorted : sorted.slice(0, FIRST_WORDS);
    for (const row of shown) {
      const tr = body.insertRow(), pressed = state.word === row.word;
      tr.insertCell().append(button(row.word, () => { select(pressed ? null : row.word); }, pressed));
      for (const [name] of names.slice(1)) {
        const td = tr.insertCell();
        td.className = 'n';
        if (name !== 'total') {
          td.textContent = name === 'gap' ? (row.gap === null ? '' : row.gap.toPrecision(2).replace('-', '−'))
            : number(row[name]);
          continue;
        }
        td.className = 'bar';
        td.title = row.total.toPrecision(3);
        const bar = make('span', undefined, !data.signed ? 'plain' : row.total < 0 ? 'against' : 'for');
        bar.style.width = `${Math.max(1, 100 * Math.abs(row.total) / largest)}%`;
        td.append(bar, make('span', row.total.toPrecision(2).replace('-', '−'), 'spoken'));
      }
    }
    table.append(body);
    section.append(table);
    if (!rows.length) section.append(make('p', 'No word is in enough of these documents.', 'quiet'));
    if (sorted.length > FIRST_WORDS) {
      section.append(button(state.open.has(target) ? 'Fewer words' : `All ${number(sorted.length)} words`, () => {
        state.open.has(target) ? state.open.delete(target) : state.open.add(target); draw();
      }));
    }
    parts.push(section);
  });
  byId('words').replaceChildren(...parts);
}

const WORD = /[\p{L}\p{N}\p{M}'’_-]+|[^\s]/gu;
function shade(cell, d) {
  const largest = Math.max(...[...d.marks.values()].map(Math.abs), 0);
  let last = 0;
  const mark = (text, word) => {
    const score = d.marks.get(fold(word)), element = make('mark', text);
    const level = Math.max(1, Math.round(8 * (Math.abs(score) / largest) ** 0.75));
    element.style.background = `var(--${!data.signed ? 'plain' : score < 0 ? 'against' : 'for'}-${level})`;
    element.title = score.toPrecision(2);
    return element;
  };
  for (const found of d.text.matchAll(WORD)) {
    const parts = d.marks.has(fold(found[0])) ? [found[0]] : found[0].split(/([-'’_])/);
    let at = found.index;
    for (const part of parts) {
      if (part && d.marks.has(fold(part))) {
        cell.append(d.text.slice(last, at), mark(part, part));
        last = at + part.length;
      }
      at += part.length;
    }
  }
  cell.append(d.text.slice(last));
}

function drawDocuments(found) {
  const names = [['id', 'document'], ['label', 'label'], ['prediction', 'predicted'], ['probability', 'sure', true],
    ...(checked ? [['verdict', 'verdict']] : []), ...data.facets.map((name, at) => [at, name]), ['text', 'text']];
  heads(byId('heads'), names, state.sort, draw);
  list.replaceChildren();
  const value = (d, name) => typeof name === 'number' ? d.facets[name] : d[name];
  for (const d of order(found, state.sort, value).slice(0, state.shown)) {
    const row = list.insertRow();
    for (const [name, , isNumber] of names) {
      const cell = row.insertCell();
      if (isNumber) cell.className = 'n';
      if (name === 'id' && d.page) {
        const link = make('a', d.id);
        link.href = d.page;
        cell.append(link);
      } else if (name === 'text') {
        cell.className = 'text';
        if (d.error) cell.textContent = d.error; else shade(cell, d);
      } else if (name === 'probability') {
        cell.textContent = d.probability === null ? '' : `${Math.floor(100 * d.probability)} %`;
      } else {
        cell.textContent = value(d, name) ?? '';
        if (name === 'prediction' && d.correct === false) cell.className = 'wrong';
      }
    }
  }
  more.hidden = found.length <= state.shown;
}

const holders = new Map();
for (const { words } of data.words) {
  for (const { word, at } of words) {
    if (!holders.has(word)) holders.set(word, new Set());
    at.forEach(place => holders.get(word).add(place));
  }
}
function draw() {
  const chosen = docs.map(matches);
  drawWords(chosen);
  const holds = state.word === null ? null : holders.get(state.word);
  const found = docs.filter((d, at) => chosen[at] && (!holds || holds.has(at)));
  drawDocuments(found);
  const known = found.filter(d => d.correct !== null), right = known.filter(d => d.correct).length;
  const share = known.length ? `, ${Math.round(100 * right / known.length)} % predicted correctly` : '';
  byId('matches').textContent = `${number(found.length)} of ${number(docs.length)} documents${share}`;
  const chips = state.word === null ? [] : [button(`with “${state.word}” ✕`, () => select(null))];
  byId('chosen').replaceChildren(...chips);
}
function select(word) { state.word = word; state.shown = STEP; draw(); }
form.addEventListener('input', () => { state.shown = STEP; draw(); });
form.addEventListener('submit', event => event.preventDefault());
byId('clear').addEventListener('click', () => { form.reset(); select(null); });
more.addEventListener('click', () => { state.shown += STEP; draw(); });
draw();
document.body.dataset.ready = 'true';
