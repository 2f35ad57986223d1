/** Segments of paths that are no keys: `/v3`, `/arbitrum-mainnet`, `/ext/bc/C/rpc`, and the pages of a gateway. */
export const publicSegment =
  /^((v?\d+|rpc|jsonrpc|json|http|https|ws|wss|api|ext|bc|eth|evm|node|nodes|public|archive|full|execution|main|mainnet|testnet|sepolia|holesky|hoodi|ethereum|arbitrum|avalanche|optimism|polygon|linea|base|one|operator|metrics|healthz|readyz)([-_.]|$))+$/i
