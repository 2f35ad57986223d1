/**
 * Every key in Redis. The part in braces is what a cluster places keys by: one script works on keys of one place only.
 * Rows are JSON; Lua takes them as they are, and never writes one anew.
 */
export const redisKeys = {
  /** String: the version of this layout. */
  version: 'tollgate:version',

  /** Hash: id of an account -> its row. */
  accounts: 'tollgate:{accounts}:accounts',
  /** Hash: name of an account -> its id. */
  names: 'tollgate:{accounts}:names',
  /** Hash: hash of a key's text -> the key's row. */
  keys: 'tollgate:{accounts}:keys',
  /** Hash: id of a key -> hash of its text. */
  keyIds: 'tollgate:{accounts}:key-ids',
  /** Set: hashes of the keys of one account. */
  keysOfAccount: (account: string): string => `tollgate:{accounts}:keys:${account}`,

  /** String: how many changes of accounts and keys there have been. */
  changes: 'tollgate:{accounts}:changes',

  /** Hash of one account's day: `leased`, and `p:<process>` -> granted, returned, used, seq. Goes after three days. */
  ledgerDay: (account: string, day: number): string => `tollgate:{${account}}:day:${day}`,

  /** Sorted set: process -> when it last said that it lives, ms since 1970. */
  processes: 'tollgate:{processes}:seen',
  /** String: the latest day that any process has seen. */
  latestDay: 'tollgate:{processes}:day',

  /** String: the greatest height that a gateway has reported lately, for a network (its name and chain ID). */
  height: (network: string): string => `tollgate:{heights}:${network}`,

  /** Hash of one account's hour: `<group> calls` and `<group> credits`. */
  usage: (account: string, hour: number): string => `tollgate:{usage}:${account}:${hour}`,
  /** Sorted set: the hours in which one account called. */
  hoursOfAccount: (account: string): string => `tollgate:{usage}:hours:${account}`,
  /** Sorted set: `<account>:<hour>`, by hour. */
  hoursOfAllAccounts: 'tollgate:{usage}:hours',
  /** String: the number of a process's last report. Goes after three days without one. */
  lastReport: (process: string): string => `tollgate:{usage}:mark:${process}`,
} as const

/** Where changes of accounts and keys are told; the message is the teller's own random name. */
export const changesChannel = 'tollgate:news'

/** Reported heights are published here: `<height> <sender> <network>`. */
export const heightsChannel = 'tollgate:heights'

/** Changes when keys or rows change so that an older Tollgate would misread them. */
export const layoutVersion = 1
