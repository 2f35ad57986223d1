import { signal } from '@preact/signals'

const narrowWindow = matchMedia('(max-width: 40rem)')

/** Whether the window is as narrow as the styles mean it. */
export const isNarrow = signal(narrowWindow.matches)

narrowWindow.addEventListener('change', () => (isNarrow.value = narrowWindow.matches))
