import { Fragment } from 'preact'
import type { ComponentChildren } from 'preact'
import { formatNumber } from '../format.ts'
import { texts } from '../texts.ts'

interface Column<Row> {
  readonly title: string
  readonly isNumber?: boolean
  readonly isTime?: boolean
  /**
   * In a narrow window, the rows of a table that has such columns are lines. The first one has a state, a name and what stands at its end; the
   * second one `rest`, which has the room that `restEnd` leaves; the third one all other columns.
   */
  readonly narrow?: 'state' | 'name' | 'end' | 'rest' | 'restEnd'
  /** Null, or nothing, is left out where rows are cards. */
  cell(row: Row): ComponentChildren
}

interface TableProps<Row> {
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  keyOf(row: Row): string
  /** The sum of the rows, as the last one. */
  readonly total?: Row
  /** Sentences about the row, below it, in the width of the table; undefined where there are none. */
  detailOf?(row: Row): ComponentChildren
  /** A click on a row; a button in it does the same, for the keyboard. */
  onOpen?(row: Row): void
}

/** Not where it is on a control in the row, or ends the selection of a text. */
const isOnRow = ({ target }: MouseEvent): boolean =>
  target instanceof Element && target.closest('button, a') === null && getSelection()?.isCollapsed !== false

const classOf = ({ isNumber, isTime }: Pick<Column<never>, 'isNumber' | 'isTime'>): string | undefined =>
  isNumber ? 'number' : isTime ? 'time' : undefined

/** So many columns fit a narrow window. */
const maxNarrowColumns = 2

/** So many numbers stand side by side in a card; fewer have a line each, as texts do. */
const minNumbersInRow = 3

/** In a narrow window, the rows of many columns are cards or a few lines; a table of few scrolls by itself where it must. */
export const Table = <Row,>({ caption, columns, rows, keyOf, total, detailOf, onOpen }: TableProps<Row>) => (
  <section class="scroll" tabIndex={0} aria-label={caption}>
    <table class={narrowClassOf(columns)}>
      <thead>
        <tr>
          {columns.map(column => (
            <th key={column.title} scope="col" class={classOf(column)}>
              {column.title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(row => {
          const detail = detailOf?.(row)
          const classes = [...(onOpen === undefined ? [] : ['opens']), ...(detail === undefined ? [] : ['with-detail'])]
          return (
            <Fragment key={keyOf(row)}>
              <tr class={classes.join(' ') || undefined} onClick={onOpen && (event => isOnRow(event) && onOpen(row))}>
                {columns.map(column => (
                  <td key={column.title} class={classOf(column)} data-label={column.title} data-narrow={column.narrow}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
              {detail !== undefined && (
                <tr class="detail">
                  <td colSpan={columns.length}>{detail}</td>
                </tr>
              )}
            </Fragment>
          )
        })}
      </tbody>
      {total !== undefined && (
        <tfoot>
          <tr class="total">
            {columns.map(column => (
              <td key={column.title} class={classOf(column)} data-label={column.title}>
                {column.cell(total)}
              </td>
            ))}
          </tr>
        </tfoot>
      )}
    </table>
  </section>
)

const narrowClassOf = (columns: readonly Pick<Column<never>, 'isNumber' | 'narrow'>[]): string | undefined => {
  if (columns.some(({ narrow }) => narrow !== undefined)) return 'brief'
  if (columns.length <= maxNarrowColumns) return undefined
  return columns.filter(({ isNumber }) => isNumber).length < minNumbersInRow ? 'rows' : 'rows with-numbers'
}

interface PagerProps {
  /** The first row that is shown. */
  readonly offset: { value: number }
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
