/* law.h: what a law asks of the driver: the words of a trial, second-stage lanes. */
#ifndef FDP_MECH_LAW_H
#define FDP_MECH_LAW_H

#include "../fastdp.h"
#include "scratch.h"

fdp_shape_t fdp_law_shape(fdp_kind_t kind);

/* A number of lanes that a count of special ones exceeds with probability below 2^-64. */
uint32_t fdp_slots_for(double trials, double rate);

/* Lanes of one second-stage pass for a batch (or group) of this many trials. */
size_t fdp_law_slots(const fdp_sampler_t *sampler, size_t trials);

/* Trials that nearly always give this many outputs: a multiple of 64, at most
 * FDP_BATCH. */
size_t fdp_law_trials(const fdp_sampler_t *sampler, size_t outputs);

#endif
