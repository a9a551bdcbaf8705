// What happens when the page is opened, and addresses of episodes: #run=5d43bbcc9bce&from=update+50&episode=3&step=4

const address = (index, e, step) => "#" + new URLSearchParams({run: index.runs[e.run].id, from: e.source, episode: e.number + 1, step: step + 1});

function addressed(index) {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const found = index.episodes.find(e => index.runs[e.run].id === wanted.get("run") && e.source === wanted.get("from") && e.number + 1 === Number(wanted.get("episode")));
  return found && [found, Number(wanted.get("step") ?? 1) - 1];
}

async function start() {
  const index = await unpack("index");
  const group = new Map();
  for (const e of index.episodes) group.set(e.chunk, [...group.get(e.chunk) ?? [], e.end === "success"]);
  index.episodes.forEach((e, n) => { const all = group.get(e.chunk); e.n = n; e.mixed = Math.abs(all.filter(Boolean).length / all.length - .5); });
  showRuns(index);
  if (index.compare) showCompare(index);
  showBrowser(index);
  showCurves(index); showTypes(index); showDiagnosis(index); showSettings(index);
  document.body.dataset.ready = "true";
}

function showBrowser(index) {
  const section = byId("episodes");
  if (!index.episodes.length) return section.append(h("p", {class: "quiet"}, "These runs keep no episodes: published archives leave rollouts and transcripts out."));
  const view = new EpisodeView(index, (entry, t) => {
    if (location.hash.startsWith("#run=") || t) history.replaceState(null, "", address(index, entry, t));
  });
  const list = new EpisodeList(index, (entry, step) => { list.mark(entry); view.open(entry, step); });
  section.append(list.bar(), h("div", {class: "browser"}, list.box, view.box));
  list.draw();
  const initial = addressed(index);
  if (initial) section.scrollIntoView();
  const instructive = [...index.episodes].sort((a, b) => a.mixed - b.mixed || (b.gate ?? -1) - (a.gate ?? -1))[0];
  list.open(...initial ?? [instructive]);
  addEventListener("hashchange", () => { const found = addressed(index); if (found) list.open(...found); });
}

start();
