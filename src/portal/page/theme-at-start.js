// Before the first paint, and so not in a module: else the page would be seen in the theme of the system first. theme.ts keeps the choice.
try {
  const theme = localStorage.getItem('theme')
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme
} catch {
  // A browser that keeps nothing has the theme of the system.
}
