import { useRef } from 'preact/hooks'

interface OrderedRows {
  /** What the order follows from: another one is another list. */
  readonly view: string
  /** The ids that belong to the list now, in their order. */
  readonly found: readonly string[]
  /** All ids that there are. */
  readonly known: ReadonlySet<string>
}

/** The ids of a list whose rows keep their places while their figures change, until who looks at it sorts or searches anew. New ones come last. */
export const useStableOrder = ({ view, found, known }: OrderedRows): readonly string[] => {
  const shown = useRef<Pick<OrderedRows, 'view' | 'found'>>({ view, found: [] })
  const before = shown.current.view === view ? shown.current.found.filter(id => known.has(id)) : []
  const placed = new Set(before)
  shown.current = { view, found: [...before, ...found.filter(id => !placed.has(id))] }
  return shown.current.found
}
