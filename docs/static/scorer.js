// The order of search results: pages that answer a user's question come before the reference, and the reference before
// copies of the repository's own papers (architecture, measurements, results).
var Scorer = {
  score: (result) => {
    const [page, , , , score] = result;
    if (/^tutorials\/(table|nats)$/.test(page)) return score + 70;
    if (/^(tutorials|how_to(?!\/extend)|commands)\/|^index$/.test(page)) return score + 60;
    if (/^copies\//.test(page)) return score - 60;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
