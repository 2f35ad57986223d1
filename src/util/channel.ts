import type { Clock } from '../services/clock.ts'
import { withTimeoutOr } from './async.ts'
import { getOrCreate } from './memoize.ts'

/** A value that is sent: the other process needs the newest. */
export interface ChannelTopic<Value> {
  readonly value: Value
}

/** A request with its arguments, and the reply to it, which is no string. */
export interface ChannelCall<Args, Reply> {
  readonly value: Args
  readonly reply: Reply
}

/** In place of a reply. `exited`: the other process has ended. `late`: it did not reply in time. */
export type NoReply = 'exited' | 'late'

export const isReply = <Reply>(result: Reply | NoReply): result is Reply => result !== 'exited' && result !== 'late'

// A table has the topics and calls that a process may send, by name.
export type ValueOf<Table, Name extends keyof Table> = Table[Name] extends { readonly value: infer Value } ? Value : never
export type ReplyOf<Table, Name extends keyof Table> = Table[Name] extends { readonly reply: infer Reply } ? Reply : never
export type CallName<Table> = { [Name in keyof Table]: Table[Name] extends { readonly reply: unknown } ? Name : never }[keyof Table] &
  string
type TopicName<Table> = Exclude<keyof Table & string, CallName<Table>>

/** The sending end of a channel. */
export interface Sender<Table> {
  send<Name extends TopicName<Table>>(topic: Name, value: ValueOf<Table, Name>): void
  /** `onReply` is called before the next message is handled; the promise resolves later. */
  call<Name extends CallName<Table>>(
    name: Name,
    args: ValueOf<Table, Name>,
    timeoutMs: number,
    onReply?: (reply: ReplyOf<Table, Name>) => void,
  ): Promise<ReplyOf<Table, Name> | NoReply>
}

/** One for each topic and call. `reply` may be called later, or never. */
export type Handlers<Table> = {
  readonly [Name in keyof Table]: Table[Name] extends { readonly reply: infer Reply }
    ? (args: ValueOf<Table, Name>, reply: (value: Reply) => void) => void
    : (value: ValueOf<Table, Name>) => void
}

/**
 * What becomes of a value while an older one of the same name and key waits: one message is sent, with the newer value, or with both merged. Without
 * `key` the values of one network have the same, and those that concern none.
 */
export type QueueRules<Table> = {
  readonly [Name in keyof Table]?: {
    key?(value: ValueOf<Table, Name>): string | number
    merge?(older: ValueOf<Table, Name>, newer: ValueOf<Table, Name>): ValueOf<Table, Name>
  }
}

// Without the types of the table, which senders and handlers have been checked against.
type UntypedRule = { key?(value: unknown): string | number; merge?(older: unknown, newer: unknown): unknown }
type UntypedHandler = (value: unknown, reply: (value: unknown) => void) => void
type OnReply = (reply: unknown) => void

/** A topic, a call, which has an ID, or the reply to it. */
type Message =
  | { readonly name: string; readonly value: unknown; readonly id?: number }
  | { readonly replyTo: number; readonly value: unknown; readonly id?: never }

interface ChannelOptions<Sent> {
  readonly clock: Clock
  readonly rules: QueueRules<Sent>
  /** Transmits one message. `onSent` is to be called when the message has left this process, or never will. */
  transmit(message: Message, onSent: () => void): void
}

/** A child process; or this one, for the way to its parent. */
interface OtherProcess {
  readonly connected: boolean
  send?(message: object, handle: undefined, options: undefined, onSent: () => void): boolean
}

/** Transmits over the pipe that Node opens between two processes. */
export const transmitTo =
  (other: OtherProcess): ChannelOptions<unknown>['transmit'] =>
  (message, onSent) => {
    // With a callback, a failure to send is no event that would end this process.
    if (other.connected) other.send?.(message, undefined, undefined, onSent)
    else onSent()
  }

/**
 * One end of the channel between two processes. The other one may not read for long, because it is stopped or busy. While its pipe is full, messages
 * wait here, one for each name and key: the memory that such a process costs is bounded, and it reads the newest values afterwards.
 *
 * Order: a value that takes the place of an older one is sent after all that waits, as it may depend on that. A reply comes after what was sent before
 * it, and before what is sent later; no more replies wait than the other process has sent calls.
 */
export class Channel<Sent, Received> implements Sender<Sent> {
  readonly #options: ChannelOptions<Sent>
  #handlers: { readonly [name: string]: UntypedHandler | undefined } = {}
  readonly #waiting = new Map<string, Message>()
  /** Those who wait for a reply, by the ID of the message: several calls may have become one. */
  readonly #callers = new Map<number, Set<OnReply>>()
  #inTransitCount = 0
  #lastId = 0
  #replyCount = 0
  #isClosed = false

  constructor(options: ChannelOptions<Sent>) {
    this.#options = options
  }

  /** Adds handlers. What has none is ignored. */
  handle(handlers: Partial<Handlers<Received>>): void {
    this.#handlers = { ...this.#handlers, ...(handlers as Record<string, UntypedHandler>) } // the other process sends what its table says
  }

  send<Name extends TopicName<Sent>>(topic: Name, value: ValueOf<Sent, Name>): void {
    this.#enqueue(this.#keyOf(topic, value), { name: topic, value })
  }

  async call<Name extends CallName<Sent>>(
    name: Name,
    args: ValueOf<Sent, Name>,
    timeoutMs: number,
    onReply?: (reply: ReplyOf<Sent, Name>) => void,
  ): Promise<ReplyOf<Sent, Name> | NoReply> {
    if (this.#isClosed) return 'exited'
    const key = this.#keyOf(name, args)
    const id = this.#waiting.get(key)?.id ?? (this.#lastId += 1)
    const callers = getOrCreate(this.#callers, id, () => new Set())
    let handleReply: OnReply = () => undefined
    const replied = new Promise<ReplyOf<Sent, Name> | 'exited'>(resolve => {
      handleReply = received => {
        const reply = received as ReplyOf<Sent, Name> | 'exited' // the other process replies what its table says
        if (reply !== 'exited') onReply?.(reply)
        resolve(reply)
      }
    })
    callers.add(handleReply)
    this.#enqueue(key, { name, value: args, id })
    return withTimeoutOr(this.#options.clock, timeoutMs, replied, () => {
      callers.delete(handleReply)
      if (callers.size === 0) this.#callers.delete(id)
      return 'late' as const
    })
  }

  /** From the other process. */
  receive(message: Message): void {
    if ('replyTo' in message) this.#handleReply(message.replyTo, message.value)
    else this.#handlers[message.name]?.(message.value, value => this.#reply(message.id, value))
  }

  /** The other process has ended. */
  close(): void {
    this.#isClosed = true
    this.#waiting.clear()
    for (const id of [...this.#callers.keys()]) this.#handleReply(id, 'exited')
  }

  #handleReply(id: number, reply: unknown): void {
    const callers = this.#callers.get(id) ?? []
    this.#callers.delete(id)
    for (const handleReply of callers) handleReply(reply)
  }

  #reply(id = 0, value: unknown): void {
    this.#enqueue(this.#keyOf('', undefined), { replyTo: id, value })
    this.#replyCount += 1
  }

  /** What is sent after a reply takes the place of nothing that waits before it. */
  #keyOf(name: string, value: unknown): string {
    return `${this.#replyCount} ${name} ${this.#ruleOf(name)?.key?.(value) ?? networkOf(value)}`
  }

  #ruleOf(name: string): UntypedRule | undefined {
    return (this.#options.rules as Record<string, UntypedRule | undefined>)[name] // send() and call() have been checked
  }

  #enqueue(key: string, message: Message): void {
    if (this.#isClosed) return
    if (this.#inTransitCount === 0) return this.#transmit(message)
    const older = this.#waiting.get(key)
    this.#waiting.delete(key)
    this.#waiting.set(key, older === undefined ? message : this.#merge(older, message))
  }

  #merge(older: Message, newer: Message): Message {
    const merge = 'name' in newer ? this.#ruleOf(newer.name)?.merge : undefined
    return merge === undefined ? newer : { ...newer, value: merge(older.value, newer.value) }
  }

  #transmit(message: Message): void {
    this.#inTransitCount += 1
    this.#options.transmit(message, () => {
      this.#inTransitCount -= 1
      if (this.#inTransitCount === 0) this.#flush()
    })
  }

  #flush(): void {
    const messages = [...this.#waiting.values()]
    this.#waiting.clear()
    for (const message of messages) this.#transmit(message)
  }
}

const networkOf = (value: unknown): unknown => (typeof value === 'object' && value !== null && 'network' in value ? value.network : '')
