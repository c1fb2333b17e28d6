// SPDX-License-Identifier: MIT
// Puts figures to drag in the place of the pictures of positions and distances in the tour's report.
'use strict';

async function replacePictures() {
  const replaced = {
    rope_arrows: [clockFigure, [0, 10000, 32, 1, 4096, 0]],
    rope_distance: [scoreFigure, [0, 10000, 128, 1, 4096, 1]],
  };
  const found = Object.entries(replaced).map(([id, how]) => [document.getElementById(id), ...how]).filter(([figure]) => figure);
  if (found.length === 0) return;
  const library = await Library.unpack(document.getElementById('library').textContent.trim());
  for (const [figure, draw, settings] of found) {
    const space = make('div', { class: 'figure' });
    const still = make('details', {}, make('summary', {}, 'The picture that the text below describes'));
    const picture = figure.querySelector('.wide');
    if (picture) picture.replaceWith(space, still);
    else figure.prepend(space);
    if (picture) still.append(picture);
    draw(space, library, () => settings);
  }
}
replacePictures().catch(() => {});  // the pictures stay
