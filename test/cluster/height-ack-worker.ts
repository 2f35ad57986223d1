/** A worker that acknowledges each report, and does nothing else. */
process.on('message', ({ kind, network, reports }: { kind: string; network: string; reports: { version: number } }) => {
  if (kind === 'reports') process.send?.({ kind: 'reportsAck', network, version: reports.version })
})
process.send?.({ kind: 'ready', configId: '' })
