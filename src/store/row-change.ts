/** A change of members: null removes a member, and a member that is not named stays. */
export type RowChange<Row, Name extends keyof Row> = { readonly [N in Name]?: Row[N] | null }

export const applyChange = <Row extends object>(row: Row, change: { readonly [N in keyof Row]?: Row[N] | null | undefined }): Row => {
  const members = Object.entries({ ...row, ...change })
  // The remaining members are of the row's type: only optional members may be null in a change.
  return Object.fromEntries(members.filter(([, value]) => value !== null && value !== undefined)) as Row
}
