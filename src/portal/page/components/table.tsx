import type { ComponentChildren } from 'preact'
import type { Signal } from '@preact/signals'
import { formatNumber } from '../format.ts'
import { texts } from '../texts.ts'

interface Column<Row> {
  readonly title: string
  readonly isNumber?: boolean
  cell(row: Row): ComponentChildren
}

interface TableProps<Row> {
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  keyOf(row: Row): string
}

/** Scrolls by itself where the window is narrow. */
export const Table = <Row,>({ caption, columns, rows, keyOf }: TableProps<Row>) => (
  <section class="scroll" tabIndex={0} aria-label={caption}>
    <table>
      <thead>
        <tr>
          {columns.map(({ title, isNumber }) => (
            <th key={title} scope="col" class={isNumber ? 'number' : undefined}>
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(row => (
          <tr key={keyOf(row)}>
            {columns.map(({ title, isNumber, cell }) => (
              <td key={title} class={isNumber ? 'number' : undefined}>
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </section>
)

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
