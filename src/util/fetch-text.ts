import { formatSize } from './units.ts'

interface FetchTextOptions {
  readonly headers: Readonly<Record<string, string>>
  readonly timeoutMs: number
  readonly maxBytes: number
}

/** The text at the URL. Redirects are not followed. Rejects with an Error whose message has the reason in words, and no URL. */
export const fetchText = async (url: URL, { headers, timeoutMs, maxBytes }: FetchTextOptions): Promise<string> => {
  const signal = AbortSignal.timeout(timeoutMs)
  const { status, body } = await fetch(url, { headers, redirect: 'manual', signal }).catch(fail)
  if (status !== 200) {
    await body?.cancel()
    throw new Error(status >= 300 && status < 400 ? `redirects are not followed: HTTP ${status}` : `HTTP ${status}`)
  }
  const text = await readBounded(body, maxBytes).catch(fail)
  if (text === undefined) throw new Error(`the response is larger than ${formatSize(maxBytes)}`)
  return text
}

/** Undefined where there is more. */
const readBounded = async (body: Response['body'], maxBytes: number): Promise<string | undefined> => {
  const chunks: Uint8Array[] = []
  let byteLength = 0
  for await (const chunk of body ?? []) {
    chunks.push(chunk)
    byteLength += chunk.length
    if (byteLength > maxBytes) return undefined
  }
  return Buffer.concat(chunks).toString()
}

/** fetch() has the reason in its cause; its own message says nothing, or quotes the URL. */
const fail = (error: unknown): never => {
  const { name, cause }: Partial<Error> = error instanceof Error ? error : {}
  if (name === 'TimeoutError') throw new Error('no answer in time')
  const { code, message = 'the request failed' }: { readonly code?: unknown; readonly message?: string } =
    cause instanceof Error ? cause : {}
  throw new Error(String(code ?? message))
}
