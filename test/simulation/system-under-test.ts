// Everything under test in one module, so that a copy of it can be made with an injected bug.
export { openLedger } from '../../src/services/ledger/index.ts'
export { InMemoryLedgerStore } from '../../src/testing/in-memory-store.ts'
