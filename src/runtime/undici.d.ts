declare module 'undici/lib/core/connect.js' {
  import { buildConnector } from 'undici'
  export default buildConnector
}

declare module 'undici/lib/dispatcher/client.js' {
  import { Client } from 'undici'
  export default Client
}
