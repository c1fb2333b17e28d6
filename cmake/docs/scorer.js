// SPDX-License-Identifier: MIT
// Order of the search's results: a name itself, pages, other names with the word in them. Sections of header pages come last,
// because each is the section of a name. The changelog has every word once, so it follows all other pages.
var Scorer = {
  objNameMatch: 100,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 0 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: ([page, title, anchor, description, score]) => {
    if (description) return score + (/^(class|struct|concept)/.test(description) ? 1 : 0);
    if (page === "changelog") return score / 100 - 2;
    if (!page.startsWith("reference/")) return score + 15;
    return anchor ? -1 : score;
  },
};
