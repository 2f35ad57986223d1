import { texts } from '../texts.ts'
import { Notice } from './controls.tsx'
import { useSending } from './form.tsx'
import { Menu } from './menu.tsx'

type Row = readonly (string | number)[]

/** What is saved: `rows` as CSV, `json` as JSON. */
interface Download {
  readonly rows: readonly Row[]
  readonly json: unknown
}

interface DownloadsProps {
  /** Of the file, without its ending. */
  readonly name: string
  /** Of the columns of the CSV. */
  readonly titles: Row
  /** Called when it is chosen. */
  read(): Download | Promise<Download>
  /** Other files, as CSV. */
  readonly more?: readonly DownloadCsv[]
}

interface DownloadCsv extends Pick<DownloadsProps, 'name' | 'titles'> {
  readonly label: string
  read(): Promise<readonly Row[]>
}

/** A menu that saves what is shown. */
export const Downloads = ({ name, titles, read, more = [] }: DownloadsProps) => {
  const { error, sendOnce } = useSending()
  const item = (label: string, download: () => Promise<void>) => ({ label, onSelect: () => sendOnce(download) })
  const saveCsv = (file: string, columns: Row, rows: readonly Row[]) => save(`${file}.csv`, 'text/csv', toCsv([columns, ...rows]))
  const items = [
    item(texts.usage.csv, async () => saveCsv(name, titles, (await read()).rows)),
    ...more.map(file => item(file.label, async () => saveCsv(file.name, file.titles, await file.read()))),
    item(texts.usage.json, async () => save(`${name}.json`, 'application/json', toJson((await read()).json))),
  ]
  return (
    <div class="buttons">
      <Menu label={texts.usage.download} text={texts.usage.download} items={items} />
      <Notice text={error.value?.message} />
    </div>
  )
}

const toJson = (value: unknown): string => JSON.stringify(value, undefined, 2)

const toCsv = (rows: readonly Row[]): string => rows.map(row => `${row.map(toCsvField).join(',')}\r\n`).join('')

/** RFC 4180. A spreadsheet would run a text that begins like a formula: the apostrophe makes it a text. */
const toCsvField = (value: string | number): string => {
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

const save = (name: string, type: string, text: string): void => {
  const url = URL.createObjectURL(new Blob([text], { type }))
  const link = Object.assign(document.createElement('a'), { href: url, download: name })
  link.click()
  URL.revokeObjectURL(url)
}
