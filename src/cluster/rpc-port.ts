/** The environment variable in which the primary tells its workers which port `0` has become. */
export const rpcPortVariable = 'TOLLGATE_RPC_PORT'
