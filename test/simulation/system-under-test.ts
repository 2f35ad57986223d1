// What is simulated, in one module, so that a copy of all of it can be made with a bug planted in it.
export { openLedger } from '../../src/services/ledger/index.ts'
export { InMemoryLedgerStore } from '../store/in-memory-store.ts'
