import { toOwn, toReadOnly } from '../json/chunked-bytes.ts'
import type { Call, Json, Request } from '../plugin/call.ts'
import { copyReply, isFailure } from '../plugin/reply.ts'
import type { Reply, Result } from '../plugin/reply.ts'
import { deepFreeze } from '../util/memoize.ts'

// A call, its request and a reply belong to several callers: to those that share a call in flight, and to later ones that get a cached
// answer. The types say that plugins leave them unchanged; a plugin in JavaScript may not. What can be frozen is frozen, so that a change
// in place throws at the line of the plugin, and bytes are copied. Built-in plugins spend nothing on it.

/**
 * Freezes the request that a plugin from outside is given; above `envelope`, the message that it is read from. What plugins above have
 * passed on is frozen through and through already. The call itself belongs to one caller, or to one shared request.
 */
export const freezeRequest = (call: Call): Request | Json => deepFreeze(requestOf(call))

/** Freezes what the plugin passes on in place of what it was `given`: a frozen array may have objects in it that are not. */
export const freezeChangedRequest = (call: Call, given: unknown): void => {
  const request = requestOf(call)
  if (request !== given) freezeAll(request)
}

const requestOf = ({ context, message }: Call): Request | Json => (context as { readonly request?: Request }).request ?? message

/** Without recursion, and also for a value that contains itself: it may be of any shape. */
const freezeAll = (root: unknown): void => {
  const seen = new Set<object>()
  const pending = [root]
  while (pending.length > 0) {
    const value = pending.pop()
    if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value) || seen.has(value)) continue
    seen.add(value)
    for (const inner of Object.values(Object.freeze(value)) as unknown[]) pending.push(inner)
  }
}

/** The reply for a plugin from outside: what others have of it, the plugin cannot change. */
export const protectReply = (reply: Reply): Reply => {
  if (!isFailure(reply)) return Object.freeze(copyReply<Result>(reply, { result: toReadOnly(reply.result) }))
  deepFreeze(reply.error)
  return Object.freeze(copyReply<Reply>(reply, {}))
}

/** The reply of a plugin from outside, which may go on using its bytes: it may write the next result to the same buffer. */
export const detachReply = (reply: Reply): Reply => {
  if (!isFailure(reply)) return copyReply<Result>(reply, { result: toOwn(reply.result) })
  deepFreeze(reply.error)
  return copyReply<Reply>(reply, {})
}
