import { generateApiKey, hashApiKey } from '../services/accounts/api-key.ts'
import type { KeyStore } from '../services/accounts/index.ts'
import type { KeyWithAccount } from '../store/store.ts'

/** An API key of a test. Its account has the name of the key unless `account` names it. */
export interface TestKey {
  readonly account?: string
  /** The plan of the account; the first of the plans unless given. */
  readonly plan?: string
  /** Credits a day of the account, in place of the plan's. */
  readonly credits?: number
  /** As the key has them: a missing list allows everything. */
  readonly networks?: readonly string[]
  readonly methods?: readonly string[]
  readonly origins?: readonly string[]
  readonly revoked?: boolean
  readonly suspended?: boolean
}

/** Keys in memory, by names. Their texts are generated, so that they pass every check that the text of a key passes. */
export class InMemoryKeys implements KeyStore {
  readonly #rows = new Map<string, KeyWithAccount>()
  readonly #textByName = new Map<string, string>()
  readonly firstName: string | null

  constructor(keys: Readonly<Record<string, TestKey>>, defaultPlan: string) {
    this.firstName = Object.keys(keys)[0] ?? null
    for (const [name, key] of Object.entries(keys)) {
      const text = generateApiKey().reveal()
      this.#textByName.set(name, text)
      this.#rows.set(hashApiKey(text), toRow(name, key, defaultPlan))
    }
  }

  /** The text of the key with this name; an unknown name is a text itself. */
  textOf(name: string): string {
    return this.#textByName.get(name) ?? name
  }

  /** The key with this name, and its account. */
  find(name: string): KeyWithAccount | undefined {
    return this.#rows.get(hashApiKey(this.textOf(name)))
  }

  findKey = (hash: string): KeyWithAccount | undefined => this.#rows.get(hash)
  findKeyById = (id: string): KeyWithAccount | undefined => [...this.#rows.values()].find(({ key }) => key.id === id)
  changeCount = (): number => 0
  subscribe = (): (() => void) => () => undefined
}

const toRow = (name: string, key: TestKey, defaultPlan: string): KeyWithAccount => {
  const { account = name, plan = defaultPlan, credits, networks, methods, origins, revoked, suspended } = key
  return {
    account: { id: `acc_${account}`, name: account, plan, ...(credits !== undefined && { credits }), created: 0 },
    key: {
      id: `key_${name}`,
      account: `acc_${account}`,
      created: 0,
      hint: '',
      ...(networks && { networks }),
      ...(methods && { methods }),
      ...(origins && { origins }),
      ...(revoked === true && { revoked: 0 }),
      ...(suspended === true && { suspended: 0 }),
    },
  }
}
