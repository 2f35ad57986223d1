import type { RedisAddress } from '../../config/types.ts'

/**
 * Every key in Redis, by the term that the code uses; the texts are stored, so that they cannot change. A cluster places keys
 * by the part in braces: the keys of one script have the same. Rows are JSON, which scripts never encode anew.
 */
export const redisKeys = {
  /** String: the version of this layout. */
  version: 'tollgate:version',

  /** Hash: id of an account -> its row. */
  accounts: 'tollgate:{accounts}:accounts',
  /** Hash: name of an account -> its id. */
  names: 'tollgate:{accounts}:names',
  /** Hash: hash of a key's text -> its row. */
  keys: 'tollgate:{accounts}:keys',
  /** Hash: id of a key -> hash of its text. */
  keyIds: 'tollgate:{accounts}:key-ids',
  /** Set: hashes of the keys of one account. */
  keysOfAccount: (account: string): string => `tollgate:{accounts}:keys:${account}`,

  /** String: how many changes of accounts and keys there have been. */
  changes: 'tollgate:{accounts}:changes',

  /** Hash of one account's day: `leased`, and `p:<process>` -> granted, returned, used, seq. Does not expire: `ledgerDays`. */
  ledgerDay: (account: string, day: number | ''): string => `tollgate:{${account}}:day:${day}`,
  /** Sorted set: the days of one account that have a `ledgerDay`: the latest three. */
  ledgerDays: (account: string): string => `tollgate:{${account}}:days`,
  /** String of an older Tollgate: the one day of an account that has a `ledgerDay` without a time to live. */
  latestLedgerDay: (account: string): string => `tollgate:{${account}}:latest-day`,

  /** Sorted set: process -> its last heartbeat, ms since 1970. */
  processes: 'tollgate:{processes}:seen',
  /** String: the latest day that any process has observed. */
  latestDay: 'tollgate:{processes}:day',
  /** String: the time of the last heartbeat, ms since 1970, as StoreClock reads it. */
  time: 'tollgate:{processes}:time',

  /** Hash of a bucket of `rate-limit`: `tokens`, and the time `at` which it had them, in ms since 1970. Expires when the bucket is full. */
  tokens: (bucket: string): string => `tollgate:{${bucket}}:tokens`,

  /** String: the greatest height that a gateway has reported lately, for a network (its name and chain ID). */
  height: (network: string): string => `tollgate:{heights}:${network}`,

  /** Hash of one account's hour: `<group> calls` and `<group> credits`. */
  usage: (account: string, hour: number): string => `tollgate:{usage}:${account}:${hour}`,
  /** Hash of one account: `<hour> calls` and `<hour> credits`, the sums of `usage`. */
  hourTotals: (account: string): string => `tollgate:{usage}:totals:${account}`,
  /** Sorted set: the hours in which one account called. */
  hoursOfAccount: (account: string): string => `tollgate:{usage}:hours:${account}`,
  /** Sorted set: `<account>:<hour>`, by hour. */
  hoursOfAllAccounts: 'tollgate:{usage}:hours',
  /** Hash of one account's day: process -> credits of the calls that it has counted. Does not expire: `reportedDays`. */
  reportedUse: (account: string, day: number | ''): string => `tollgate:{usage}:counted:${account}:${day}`,
  /** Sorted set: the days of one account that have a `reportedUse`: the latest three. */
  reportedDays: (account: string): string => `tollgate:{usage}:counted-days:${account}`,
  /** String: the seq of a process's last report, ` after ` the one before (an older Tollgate did not write it), and ` final` when it has ended in order. */
  lastReport: (process: string): string => `tollgate:{usage}:mark:${process}`,
  /** Sorted set: the processes that have a `lastReport`, by its time in the store; dropped three days later. */
  reportingProcesses: 'tollgate:{usage}:marks',

  /** String: a record of the portal, without a time to live: see `recordExpiry`. An older Tollgate gave it one. */
  record: (kind: string, id: string): string => `tollgate:{portal}:${kind}:${id}`,
  /** Sorted set: `<kind>:<id>` of each record that expires, by that time, ms since 1970. */
  recordExpiry: 'tollgate:{portal}:expiry',
  /** Sorted set: the ids of the records of one kind and account, by the time at which they expire, ms since 1970. */
  recordsOfAccount: (kind: string, account: string): string => `tollgate:{portal}:${kind}s-of:${account}`,

  /** String: the answer to a request between processes; expires after 10 s. */
  peerReply: (request: string): string => `tollgate:{peers}:reply:${request}`,
} as const

/** Databases share their channels: without its number, installations in two databases of one Redis would get each other's messages. */
const channelOf =
  (name: string) =>
  ({ url }: Pick<RedisAddress, 'url'>): string => {
    const database = Number(new URL(url.reveal()).pathname.slice(1))
    return database === 0 ? name : `${name}:${database}`
  }

/** Channel of changes of accounts and keys; the message is the publisher's random id. */
export const changesChannelOf = channelOf('tollgate:news')

/** Reported heights are published here: `<height> <sender> <network>`. */
export const heightsChannelOf = channelOf('tollgate:heights')

/** Nobody listens here. */
export const rightsChannel = 'tollgate:rights'

/** Before the name of a process: messages to it, `<request> <process that asks> <payload>`, or `<request>` once that is answered. */
export const peerChannelPrefix = 'tollgate:peer:'

/** Incremented when an older Tollgate would misread keys or rows. */
export const layoutVersion = 1
