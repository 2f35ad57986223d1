import { computed, effect, signal } from '@preact/signals'

/** What somebody has chosen; the theme of the system unless they have. */
type ThemeChoice = 'system' | 'light' | 'dark'

/** theme-at-start.js reads it before anything is drawn. */
const storageKey = 'theme'

const readChoice = (): ThemeChoice => {
  const { theme } = document.documentElement.dataset
  return theme === 'light' || theme === 'dark' ? theme : 'system'
}

export const themeChoice = signal<ThemeChoice>(readChoice())

const systemTheme = matchMedia('(prefers-color-scheme: dark)')
const isSystemDark = signal(systemTheme.matches)

systemTheme.addEventListener('change', () => {
  isSystemDark.value = systemTheme.matches
})

/** The theme that is shown. */
export const theme = computed(() => themeOf(isSystemDark.value))

const themeOf = (isDark: boolean): Exclude<ThemeChoice, 'system'> => {
  if (themeChoice.value !== 'system') return themeChoice.value
  return isDark ? 'dark' : 'light'
}

effect(() => {
  if (themeChoice.value === 'system') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = themeChoice.value
})

/** Kept in this browser, for its other tabs too. */
export const chooseTheme = (choice: ThemeChoice): void => {
  themeChoice.value = choice
  try {
    if (choice === 'system') localStorage.removeItem(storageKey)
    else localStorage.setItem(storageKey, choice)
  } catch {
    // A browser that keeps nothing has the choice until the page is closed.
  }
}

addEventListener('storage', ({ key, newValue }) => {
  if (key === storageKey) themeChoice.value = newValue === 'light' || newValue === 'dark' ? newValue : 'system'
})

/** By theme and token: to ask the browser for one takes it a calculation of all styles. */
const colors = new Map<string, string>()

/** A color of design/tokens.css, such as `data`, in the theme that is shown: for what is drawn on a canvas. */
export const colorOf = (token: string): string => {
  // Styles follow the system at once, its event comes with the next frame.
  const key = `${themeOf(systemTheme.matches)} ${token}`
  const known = colors.get(key)
  if (known !== undefined) return known
  const probe = document.createElement('span')
  probe.style.color = `var(--${token})`
  document.body.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  colors.set(key, color)
  return color
}
