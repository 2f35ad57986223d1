import { connect } from 'node:net'
import type { Server, Socket } from 'node:net'
import { nextTick, platform } from 'node:process'
import { setImmediate } from 'node:timers/promises'

/** A listening socket, as libuv's bindings have it (Node 20, 22, 24 and 26). */
export interface QueueingHandle {
  /** Changes how many connections may wait to be accepted: one more than this. */
  listen?(backlog: number): number
  getsockname?(address: { address?: string; port?: number }): number
}

/** Undefined once it does not listen any more. */
export const listeningHandleOf = (server: Server): QueueingHandle | undefined => (server as { readonly _handle?: QueueingHandle })._handle

/** So many connections of this process fill the queue. */
const fillerCount = 4
/** Of these, so many are accepted before the state is known. The others stay in the queue, which they fill. */
const acceptedFillerCount = 2
const maxAttempts = 20
/** libuv accepts one connection in a turn of the event loop, until the queue is empty. */
const maxTurns = 16

/**
 * Resolves while nothing but connections of this process is in the queue of a listening socket, and the system adds no other one: listening
 * is to end at once, and resets no caller. The system drops what callers send to open a connection, they send it again after a second, and are refused.
 * Without this, those are reset whose connections come after the last one that was accepted. For Linux, whose queue has a bound that is exact;
 * elsewhere, and where it stays in use for too long, it resolves with nothing done. Returns what closes the connections of this process.
 *
 * The queue is made as small as they are many. Where the last one gets into it, all of them are in it, and nothing else.
 */
export const fillAcceptQueue = async (handle: QueueingHandle | undefined, acceptedCount: () => number): Promise<() => void> => {
  const address: { address?: string; port?: number } = {}
  if (platform !== 'linux' || handle?.listen === undefined || handle.getsockname?.(address) !== 0) return nothing
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const acceptedBefore = acceptedCount()
    handle.listen(fillerCount - 1)
    const fillers = Array.from({ length: fillerCount }, () => open(address))
    // They are opened in this turn.
    await new Promise<void>(resolve => nextTick(resolve))
    handle.listen(fillerCount - acceptedFillerCount - 1)
    const close = (): void => {
      for (const filler of fillers) filler.destroy()
    }
    for (let [turn, accepted] = [0, -1]; turn < maxTurns && accepted < acceptedCount(); turn++) {
      accepted = acceptedCount()
      const areAllIn = fillers.every(({ connecting, destroyed }) => !connecting && !destroyed)
      if (accepted - acceptedBefore === acceptedFillerCount && areAllIn) return close
      await setImmediate()
    }
    close()
  }
  return nothing
}

const open = ({ address = '', port = 0 }: { readonly address?: string; readonly port?: number }): Socket =>
  connect({ host: ownAddresses.get(address) ?? address, port }).on('error', nothing)

/** Of those that stand for all of the machine. */
const ownAddresses: ReadonlyMap<string, string> = new Map([
  ['0.0.0.0', '127.0.0.1'],
  ['::', '::1'],
])

const nothing = (): void => undefined
