const data = JSON.parse(document.getElementById('data').textContent);
const words = [...document.querySelectorAll('[data-word]')];
const all = document.getElementById('all'), status = document.getElementById('status');
const list = document.querySelector('#list tbody'), select = document.getElementById('method');
const legend = document.getElementById('legend'), meaning = document.getElementById('meaning');
const generated = data.generated.map(word => words.find(element => element.dataset.word === String(word.unit)));
let method = 0, chosen = -1;
for (const [place, shown] of data.methods.entries()) select.add(new Option(shown.title, place));
select.hidden = data.methods.length < 2;
select.parentElement.hidden = select.hidden;
const percent = p => p < 0.0001 ? 'less than 0.01 %' : (100 * p).toPrecision(3) + ' %';
function row() {
  return chosen < 0 ? data.methods[method].total : data.methods[method].rows[chosen];
}
function hueOf(level) {
  return !data.methods[method].signed ? 'plain' : level > 0 ? 'for' : 'against';
}
function draw() {
  const { levels, scores } = row();
  for (const element of words) {
    const level = levels[element.dataset.word] ?? 0, score = scores[element.dataset.word] ?? 0;
    element.className = 'word' + (level ? ' ' + hueOf(level) + Math.abs(level) : '');
    element.title = score ? Number(score).toPrecision(3) : '';
  }
  all.setAttribute('aria-pressed', String(chosen < 0));
  generated.forEach((element, place) => element.setAttribute('aria-pressed', String(place === chosen)));
  meaning.textContent = data.methods[method].meaning;
  const word = chosen < 0 ? null : data.generated[chosen];
  status.textContent = word === null
    ? 'Colours show the sum over all words of the continuation. Click one of them to see the words behind it.'
    : '“' + word.text + '” had a probability of ' + percent(word.probability) + '; the words behind it are coloured.';
  const order = scores.map((score, unit) => [unit, score]).filter(([, score]) => score)
    .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 12);
  list.replaceChildren();
  for (const [unit, score] of order) {
    const line = list.insertRow();
    line.insertCell().textContent = data.words[unit];
    const cell = line.insertCell();
    cell.className = 'n';
    cell.textContent = Number(score).toPrecision(3);
  }
  legend.replaceChildren();
  const names = data.methods[method].signed ? [['against', 'against'], ['for', 'for']] : [['plain', 'strong']];
  for (const [hue, name] of names) {
    const mark = document.createElement('span');
    mark.className = hue + '8'; mark.textContent = name;
    legend.append(mark, ' ');
  }
  history.replaceState(null, '', chosen < 0 && !method ? location.pathname : '#word=' + chosen + '&method=' + method);
}
function choose(place) { chosen = place; draw(); }
all.addEventListener('click', () => choose(-1));
generated.forEach((element, place) => element.addEventListener('click', () => choose(place)));
select.addEventListener('change', () => { method = Number(select.value); draw(); });
document.addEventListener('keydown', event => {
  if (event.target === select || event.altKey || event.ctrlKey || event.metaKey) return;
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  choose(Math.max(-1, Math.min(generated.length - 1, chosen + step)));
  (chosen < 0 ? all : generated[chosen]).focus();
});
const state = new URLSearchParams(location.hash.slice(1));
const whole = (name, low, high) => {
  const value = Number(state.get(name) ?? low);
  return Number.isInteger(value) && value >= low && value < high ? value : low;
};
method = whole('method', 0, data.methods.length);
chosen = whole('word', -1, generated.length);
select.value = String(method);
draw();
document.body.dataset.ready = 'true';
