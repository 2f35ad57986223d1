/** The environment variable in which the primary tells its workers which port `0` has become. */
export const portVariable = 'TOLLGATE_RPC_PORT'
