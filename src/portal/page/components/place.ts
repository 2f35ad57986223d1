/** The distance to what opened it, and to the borders of the window. */
const gapPx = 4

/**
 * Puts what stands before the page below what opened it, or above where there is more room; at its end, or as wide as it is. The keyboard of a
 * phone covers a part of the window.
 */
export const placeBelow = (element: HTMLElement, opener: Element, width: 'own' | 'opener' = 'own'): void => {
  const box = opener.getBoundingClientRect()
  const { style } = element
  const { offsetTop: top, height } = visualViewport ?? { offsetTop: 0, height: innerHeight }
  if (width === 'opener') style.width = `${box.width}px`
  // Its own height, not that which the last place left it.
  style.maxHeight = ''
  const [above, below] = [box.top - top - 2 * gapPx, top + height - box.bottom - 2 * gapPx]
  const isBelow = element.offsetHeight <= below || below >= above
  if (element.offsetHeight > Math.max(above, below)) style.maxHeight = `${Math.max(above, below)}px`
  style.top = `${isBelow ? box.bottom + gapPx : box.top - gapPx - element.offsetHeight}px`
  style.left = `${Math.max(gapPx, width === 'opener' ? box.left : box.right - element.offsetWidth)}px`
}
