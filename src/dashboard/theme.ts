// Runs before the page is painted, so that it never appears in the other theme first.
const chosen = localStorage.getItem('slipway-theme')
if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen
