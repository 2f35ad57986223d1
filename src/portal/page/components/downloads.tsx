import { texts } from '../texts.ts'
import { Notice } from './controls.tsx'
import { useSending } from './form.tsx'

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
  /** Called when a button is pressed. */
  read(): Download | Promise<Download>
}

interface DownloadCsvProps extends Pick<DownloadsProps, 'name' | 'titles'> {
  readonly label: string
  read(): Promise<readonly Row[]>
}

/** A button that saves what is read for it. */
export const DownloadCsv = ({ name, titles, label, read }: DownloadCsvProps) => {
  const { error, sendOnce } = useSending()
  const download = async (): Promise<void> => save(`${name}.csv`, 'text/csv', toCsv([titles, ...(await read())]))
  return (
    <>
      <button type="button" class="quiet" onClick={() => sendOnce(download)}>
        {label}
      </button>
      <Notice text={error.value?.message} />
    </>
  )
}

/** Buttons that save what is shown. */
export const Downloads = ({ name, titles, read }: DownloadsProps) => {
  const { error, sendOnce } = useSending()
  const download = (saveAs: (download: Download) => void): void => sendOnce(async () => saveAs(await read()))
  return (
    <div class="buttons">
      <button type="button" class="quiet" onClick={() => download(({ rows }) => save(`${name}.csv`, 'text/csv', toCsv([titles, ...rows])))}>
        {texts.usage.download} CSV
      </button>
      <button type="button" class="quiet" onClick={() => download(({ json }) => save(`${name}.json`, 'application/json', toJson(json)))}>
        {texts.usage.download} JSON
      </button>
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
