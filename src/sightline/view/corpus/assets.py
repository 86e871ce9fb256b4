"""Style and script of the corpus page. The script only filters rows that the page holds; it loads nothing."""

from __future__ import annotations

STYLE = """
h3{margin-top:1rem}
th,td{padding-inline-end:1.2rem;vertical-align:top}
td.quiet{font-size:inherit}
.side{display:flex;flex-wrap:wrap;gap:1rem 3rem}
.pos{color:var(--accent)}
.neg{color:var(--warning)}
form{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:end;margin:.6rem 0}
label{display:flex;flex-direction:column;font-size:.8rem;color:var(--quiet)}
label.row{flex-direction:row;gap:.4rem;align-items:center}
#list{width:100%}
#list td:first-child{min-width:9rem;max-width:18rem;overflow-wrap:anywhere}
#list td:last-child{color:var(--quiet);min-width:20rem;overflow-wrap:anywhere}
.unchecked{display:none}
img{max-width:100%;background:#fff;border-radius:4px}
dl{font-size:.85rem}
.wide{overflow-x:auto}
"""

SCRIPT = """
const data = JSON.parse(document.getElementById('documents').textContent);
const form = document.getElementById('filters'), list = document.querySelector('#list tbody');
const status = document.getElementById('matches'), more = document.getElementById('more');
const STEP = 200;
let shown = STEP;
const checked = data.some(d => d.faithfulness !== null);
const fold = text => String(text ?? '').toLowerCase();
for (const name of ['label', 'prediction', 'verdict', 'status']) {
  const values = [...new Set(data.map(d => d[name]).filter(v => v !== null))].sort();
  for (const value of values) form.elements[name].add(new Option(value, value));
}
function matches(d) {
  const f = form.elements, words = fold(f.search.value).split(/\\s+/).filter(Boolean);
  const text = fold(d.id) + ' ' + fold(d.excerpt) + ' ' + fold(d.vocabulary) + ' ' + fold(d.error);
  return words.every(w => text.includes(w))
    && ['label', 'prediction', 'verdict', 'status'].every(n => !f[n].value || d[n] === f[n].value)
    && (!f.wrong.checked || d.correct === false)
    && (f.least.value === '' || (d.probability ?? -1) >= f.least.value / 100)
    && (f.most.value === '' || (d.probability ?? 2) <= f.most.value / 100);
}
function cell(row, text, number) {
  const td = row.insertCell();
  td.textContent = text ?? '';
  if (number) td.className = 'n';
  return td;
}
function draw() {
  const found = data.filter(matches);
  list.replaceChildren();
  for (const d of found.slice(0, shown)) {
    const row = list.insertRow(), first = cell(row, '');
    if (d.page) {
      const link = document.createElement('a');
      link.href = d.page; link.textContent = d.id; first.append(link);
    } else first.textContent = d.id;
    cell(row, d.label); cell(row, d.prediction).className = d.correct === false ? 'neg' : '';
    cell(row, d.probability === null ? '' : (100 * d.probability).toFixed(1) + ' %', true);
    if (checked) {
      cell(row, d.verdict); cell(row, d.faithfulness === null ? '' : d.faithfulness.toFixed(2), true);
    }
    cell(row, d.error ?? d.excerpt);
  }
  status.textContent = found.length.toLocaleString('en') + ' of ' + data.length.toLocaleString('en') + ' documents';
  more.hidden = found.length <= shown;
}
form.addEventListener('input', () => { shown = STEP; draw(); });
form.addEventListener('submit', event => event.preventDefault());
more.addEventListener('click', () => { shown += STEP; draw(); });
draw();
document.body.dataset.ready = 'true';
"""
