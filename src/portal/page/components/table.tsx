import type { ComponentChildren } from 'preact'

export interface Column<Row> {
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
