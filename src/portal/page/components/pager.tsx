import type { Signal } from '@preact/signals'
import { formatNumber } from '../format.ts'
import { texts } from '../texts.ts'

interface PagerProps {
  /** The first row that is shown. */
  readonly offset: Signal<number>
  /** Rows of a page. */
  readonly size: number
  /** All rows. */
  readonly count: number
}

/** Buttons for the parts of a long list; nothing for a short one. */
export const Pager = ({ offset, size, count }: PagerProps) => {
  const first = offset.value
  if (count <= size && first === 0) return null
  return (
    <div class="pager">
      <button type="button" class="quiet" disabled={first === 0} onClick={() => (offset.value = Math.max(0, first - size))}>
        {texts.previous}
      </button>
      <span>
        {formatNumber(Math.min(first + 1, count))}–{formatNumber(Math.min(first + size, count))} {texts.of} {formatNumber(count)}
      </span>
      <button type="button" class="quiet" disabled={first + size >= count} onClick={() => (offset.value = first + size)}>
        {texts.next}
      </button>
    </div>
  )
}
