/** The distance to what opened it, and to the borders of the window. */
const gapPx = 4

/** Puts what stands before the page below what opened it, or above where there is no room; at its end, or as wide as it is. */
export const placeBelow = (element: HTMLElement, opener: Element, width: 'own' | 'opener' = 'own'): void => {
  const box = opener.getBoundingClientRect()
  const { style } = element
  if (width === 'opener') style.width = `${box.width}px`
  const fitsBelow = box.bottom + gapPx + element.offsetHeight <= innerHeight
  style.top = `${fitsBelow ? box.bottom + gapPx : Math.max(gapPx, box.top - gapPx - element.offsetHeight)}px`
  style.left = `${Math.max(gapPx, width === 'opener' ? box.left : box.right - element.offsetWidth)}px`
}
