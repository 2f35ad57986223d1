/** A worker that says which heights it reads, and does nothing else. */
process.on('message', ({ kind, network, height }: { kind: string; network: string; height: number }) => {
  if (kind === 'height') process.send?.({ kind: 'seen', network, height })
})
process.send?.({ kind: 'ready' })
