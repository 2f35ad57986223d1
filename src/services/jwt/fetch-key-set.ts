import type { Jose } from './key-set.ts'

/** A set of 100 keys takes 60 KiB. */
const maxKeySetBytes = 1_048_576

/** The text of the key set at the URL; rejects with the reason in words when there is none. Redirects are not followed. */
export const fetchKeySet = async (url: URL, init: RequestInit, { createLocalJWKSet }: Pick<Jose, 'createLocalJWKSet'>): Promise<string> => {
  const response = await fetch(url, { ...init, redirect: 'manual' }).catch(describeFailure)
  if (response.status !== 200) {
    await response.body?.cancel()
    throw new Error(
      response.status >= 300 && response.status < 400 ? `redirects are not followed: HTTP ${response.status}` : `HTTP ${response.status}`,
    )
  }
  const text = await readBounded(response).catch(describeFailure)
  try {
    createLocalJWKSet(JSON.parse(text))
  } catch {
    throw new Error('the response is not a JSON Web Key Set')
  }
  return text
}

const timeoutMs = 5_000

/** Why the keys cannot be fetched now; undefined when they can. */
export const findKeySetFailure = async (url: string): Promise<string | undefined> => {
  try {
    await fetchKeySet(new URL(url), { signal: AbortSignal.timeout(timeoutMs) }, await import('jose'))
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

const readBounded = async ({ body }: Response): Promise<string> => {
  const chunks: Uint8Array[] = []
  let byteLength = 0
  for await (const chunk of body ?? []) {
    chunks.push(chunk)
    byteLength += chunk.length
    if (byteLength > maxKeySetBytes) throw new Error('the response is larger than 1 MiB')
  }
  return Buffer.concat(chunks).toString()
}

/** fetch() has the reason in its cause: `fetch failed` says nothing. */
const describeFailure = (error: unknown): never => {
  const { name = '', message = '', cause }: Partial<Error> = error instanceof Error ? error : {}
  if (name === 'TimeoutError') throw new Error('no answer in time')
  const { code, message: detail }: { readonly code?: unknown; readonly message?: unknown } = cause instanceof Error ? cause : {}
  throw new Error(String(code ?? detail ?? message))
}
