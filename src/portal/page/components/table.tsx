import { Fragment } from 'preact'
import type { ComponentChildren } from 'preact'
import { formatNumber } from '../format.ts'
import { texts } from '../texts.ts'

interface Column<Row> {
  readonly title: string
  readonly isNumber?: boolean
  readonly isTime?: boolean
  /** Follows from the other columns, and is left out where rows are cards. */
  readonly isExtra?: boolean
  /**
   * In a narrow window, the rows of a table that has such columns are lines. The first one has a state, a name and what stands at its end; the
   * second one `rest`, which has the room that `restEnd` leaves; the third one all other columns.
   */
  readonly narrow?: 'state' | 'name' | 'end' | 'rest' | 'restEnd'
  /** What the order calls it: its title sorts by it. */
  readonly sort?: string
  /** Null, or nothing, is left out where rows are cards. */
  cell(row: Row): ComponentChildren
}

/** The rows come in it already. */
export interface TableOrder {
  /** `sort` of a column. */
  readonly by: string
  readonly isDescending: boolean
  sortBy(column: string): void
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
  readonly order?: TableOrder | undefined
  /** The heading of the rows that follow each other with the same key, as wide as the table; undefined where the rows are in no groups. */
  readonly groups?: { keyOf(row: Row): string; heading(row: Row): ComponentChildren } | undefined
  /** The row that the page is about. */
  isChosen?(row: Row): boolean
  /** Its titles stay in sight where the window has room for all columns. */
  readonly isLong?: boolean
}

/** Not where it is on a control in the row, or ends the selection of a text. */
const isOnRow = ({ target }: MouseEvent): boolean =>
  target instanceof Element && target.closest('button, a') === null && getSelection()?.isCollapsed !== false

const classOf = ({ isNumber, isTime, isExtra }: Pick<Column<never>, 'isNumber' | 'isTime' | 'isExtra'>): string | undefined =>
  isNumber ? (isExtra ? 'number extra' : 'number') : isTime ? 'time' : undefined

/** So many columns fit a narrow window. */
const maxNarrowColumns = 2

/** So many numbers stand side by side in a card; fewer have a line each, as texts do. */
const minNumbersInRow = 3

/** In a narrow window, the rows of many columns are cards or a few lines; a table of few scrolls by itself where it must. */
export const Table = <Row,>({ caption, columns, rows, keyOf, total, detailOf, onOpen, ...rest }: TableProps<Row>) => (
  <section class={rest.isLong ? 'scroll long' : 'scroll'} tabIndex={0} aria-label={caption}>
    <table class={narrowClassOf(columns)}>
      <thead>
        <tr data-label={rest.order && texts.sortBy}>
          {columns.map(column => (
            <ColumnTitle key={column.title} column={column} order={rest.order} />
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, i) => {
          const detail = detailOf?.(row)
          const classes = [...(onOpen === undefined ? [] : ['opens']), ...(detail === undefined ? [] : ['with-detail'])]
          const before = rows[i - 1]
          const isFirst = before === undefined || rest.groups?.keyOf(before) !== rest.groups?.keyOf(row)
          return (
            <Fragment key={keyOf(row)}>
              {rest.groups !== undefined && isFirst && (
                <tr class="group">
                  <th scope="rowgroup" colSpan={columns.length}>
                    {rest.groups.heading(row)}
                  </th>
                </tr>
              )}
              <tr
                class={classes.join(' ') || undefined}
                aria-current={rest.isChosen?.(row) ? 'true' : undefined}
                onClick={onOpen && (event => isOnRow(event) && onOpen(row))}
              >
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

interface ColumnTitleProps {
  readonly column: Pick<Column<never>, 'title' | 'isNumber' | 'isTime' | 'sort'>
  readonly order: TableOrder | undefined
}

const ColumnTitle = ({ column, order }: ColumnTitleProps) => {
  const { title, sort } = column
  const isSortable = order !== undefined && sort !== undefined
  const direction = order?.isDescending ? 'descending' : 'ascending'
  return (
    <th scope="col" class={classOf(column)} aria-sort={isSortable && order.by === sort ? direction : undefined}>
      {isSortable ? (
        <button type="button" class="sort" onClick={() => order.sortBy(sort)}>
          {title}
        </button>
      ) : (
        title
      )}
    </th>
  )
}

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
