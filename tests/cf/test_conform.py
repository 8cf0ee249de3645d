"""Conforming against a stepwise oracle, and every refusal by its message."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings

from cfagg.cf import conform
from cfagg.cf.header import Header
from cfagg.errors import CalendarError, CfaggError, ConformError, FragmentMismatchError, UnitsError, UnsupportedError
from cfagg.model import Aggregation, Grid, Layout, Partitions
from tests import oracles, strategies
from tests.effort import examples

WHERE = "file frag.nc, variable tas, partition (0, 1)"


def master(dims=("x",), shape=(3,), dtype="f4", attributes=None, units=None, calendar=None):
    grid = Grid([[0, n] for n in shape])
    partitions = Partitions.build(1, layouts=[Layout(dims)])
    return Aggregation(
        "tas",
        dims,
        shape,
        np.dtype(dtype),
        grid,
        partitions,
        units,
        calendar,
        attributes=attributes or {},
        source="agg.nca",
    )


def run(block, aggregation=None, layout=None, dims=None, **attributes):
    """Return a 1-D (or given) block conformed, through a pickled recipe."""
    block = np.asarray(block)
    aggregation = aggregation or master()
    dims = aggregation.dims if dims is None else dims
    header = Header("frag.nc", "tas", dims, block.shape, block.dtype, attributes)
    recipe = conform.recipe(aggregation, layout or Layout(dims), header, where=WHERE)
    out = np.full(aggregation.shape, 77, aggregation.dtype)
    conform.apply(pickle.loads(pickle.dumps(recipe)), block, out, where=WHERE)
    return out


@settings(max_examples=examples(400))
@given(strategies.sub_arrays())
def test_any_packing_fill_unit_flip_and_order_gives_what_the_steps_one_by_one_give(case):
    dtype, attributes, fill = case["master"]
    dims, block = case["dims"], case["block"]
    shape = tuple(block.shape[dims.index(d)] if d in dims else 1 for d in case["master_dims"])
    aggregation = master(case["master_dims"], shape, dtype, attributes, units=case["units"][1])
    found = run(block, aggregation, Layout(dims, case["flipped"], units=case["units"][0]), dims, **case["attributes"])
    expected = oracles.conformed(
        block, dims, case["flipped"], case["attributes"], case["units"][2], case["master_dims"], dtype, attributes, fill
    )
    np.testing.assert_array_equal(found, expected)


class TestIdentity:
    def recipe(self, dtype, own, masters, **layout):
        aggregation = master(dtype=dtype, attributes=masters, units="K")
        header = Header("frag.nc", "tas", ("x",), (3,), dtype, own)
        return conform.recipe(aggregation, Layout(("x",), **layout), header, where=WHERE)

    @pytest.mark.parametrize(
        ("dtype", "attributes"),
        [
            ("f4", {"_FillValue": np.float32(1e20)}),
            ("f4", {"_FillValue": np.float32(np.nan)}),
            ("i2", {"scale_factor": 0.1, "add_offset": 3.3, "_FillValue": np.int16(-1)}),
            ("i2", {}),
            ("u1", {}),
            ("i1", {"_Unsigned": "true", "_FillValue": np.int8(-1)}),
        ],
    )
    def test_the_same_declarations_on_both_sides_copy_bits(self, dtype, attributes):
        assert self.recipe(dtype, attributes, attributes).identity

    @pytest.mark.parametrize(
        ("dtype", "own", "masters"),
        [
            ("f4", {"_FillValue": -9.0}, {"_FillValue": 1e20}),
            ("f4", {}, {}),  # netCDF's default fill becomes NaN
            ("i2", {"scale_factor": 0.1}, {"scale_factor": 0.2}),
            ("i2", {"valid_max": np.int16(5)}, {"_FillValue": np.int16(-1)}),
            ("i1", {"_Unsigned": "true"}, {}),
        ],
    )
    def test_a_difference_in_any_declaration_does_not(self, dtype, own, masters):
        assert not self.recipe(dtype, own, masters).identity

    def test_nan_payload_and_infinity_are_kept(self):
        attributes = {"_FillValue": np.float32(1e20)}
        block = np.array([np.nan, np.inf, 1e20], "f4")
        found = run(block, master(attributes=attributes), **attributes)
        assert found.tobytes() == block.tobytes()

    def test_units_that_are_spelled_otherwise_but_mean_the_same_copy_bits(self):
        assert self.recipe("i1", {}, {}, units="kelvin").identity


class TestMissing:
    def test_netcdf_default_fill_is_missing_where_none_is_declared(self):
        np.testing.assert_array_equal(run(np.array([1, -32767, 2], "i2")), [1, np.nan, 2])

    def test_8_bit_types_have_no_default_fill(self):
        np.testing.assert_array_equal(run(np.array([1, -127, -128], "i1")), [1, -127, -128])

    def test_default_fill_becomes_the_default_fill_of_an_integer_master_without_one(self):
        found = run(np.array([1, -32767, 2], "i2"), master(dtype="i4"))
        assert found.tolist() == [1, -2147483647, 2]

    def test_a_declared_missing_value_in_an_integer_master_without_fill_is_refused(self):
        with pytest.raises(ConformError, match=r"frag.nc, variable tas, partition \(0, 1\).*-5 at \(1,\).*_FillValue"):
            run(np.array([1, -5, 2], "i2"), master(dtype="i4"), missing_value=np.int16(-5))

    def test_a_declared_missing_value_is_not_needed_where_nothing_is_missing(self):
        assert run(np.array([1, 3, 2], "i2"), master(dtype="i4"), missing_value=np.int16(-5)).tolist() == [1, 3, 2]

    def test_the_layouts_fill_counts_too(self):
        np.testing.assert_array_equal(run(np.array([1, 9, 2], "i2"), layout=Layout(("x",), fill=9)), [1, np.nan, 2])

    def test_a_valid_value_that_becomes_the_masters_fill_is_refused(self):
        aggregation = master(dtype="i2", attributes={"_FillValue": np.int16(-1)})
        with pytest.raises(ConformError, match=r"the valid value -1 at \(2,\).*missing value of the aggregation"):
            run(np.array([1, 9, -1], "i2"), aggregation, _FillValue=np.int16(9))

    def test_a_valid_value_that_is_unpacked_to_the_masters_fill_is_refused(self):
        aggregation = master(attributes={"_FillValue": -9.0})
        with pytest.raises(ConformError, match="the valid value"):
            run(np.array([1, 2, -18], "i2"), aggregation, scale_factor=0.5)

    @pytest.mark.parametrize(("offset", "stored"), [(10.0, -38), (-10.0, 2)])
    def test_an_offset_does_not_hide_what_becomes_the_masters_fill(self, offset, stored):
        aggregation = master(attributes={"_FillValue": np.float32(-9)})
        with pytest.raises(ConformError, match="the valid value"):
            run(np.array([1, 5, stored], "i2"), aggregation, scale_factor=0.5, add_offset=offset)

    def test_round_off_does_not_hide_what_becomes_the_masters_fill(self):
        stored, packing = -2055186059, {"scale_factor": 1e-9, "add_offset": 2.0}
        aggregation = master(dtype="f8", attributes={"_FillValue": stored * 1e-9 + 2.0})
        with pytest.raises(ConformError, match="the valid value"):
            run(np.array([1, 5, stored], "i4"), aggregation, **packing)

    @pytest.mark.parametrize("dtype", ["f4", "f8"])
    @pytest.mark.parametrize("fill", [-9.0, -9.5, -9.1])
    def test_a_valid_real_value_that_is_the_masters_fill_is_refused(self, dtype, fill):
        aggregation = master(attributes={"_FillValue": np.float32(fill)})
        with pytest.raises(ConformError, match=r"the valid value.*missing value of the aggregation"):
            run(np.array([1, 2, fill], dtype), aggregation, _FillValue=np.dtype(dtype).type(-1))

    @pytest.mark.parametrize(
        ("dtype", "packing", "fill", "source"),
        [("u2", 0.5, 65535, "f4"), ("u1", 0.25, 0, "f8"), ("f4", None, -999, "f4"), ("f8", None, 0, "f8")],
    )
    def test_a_real_value_that_is_computed_to_the_masters_fill_is_refused(self, dtype, packing, fill, source):
        attributes = {"_FillValue": np.dtype(dtype).type(fill)} | ({"scale_factor": packing} if packing else {})
        aggregation = master(dtype=dtype, attributes=attributes, units="m")
        stored = np.array([0.008, fill * (packing or 1) / 1000, 0.016], source)
        with pytest.raises(ConformError, match=r"the valid value.*at \(1,\).*missing value of the aggregation"):
            run(stored, aggregation, units="km")

    @pytest.mark.parametrize("fill", [9007199254740993, -9223372036854775806])
    def test_large_integers_that_are_the_masters_fill_are_refused(self, fill):
        aggregation = master(dtype="i8", attributes={"_FillValue": np.int64(fill)})
        with pytest.raises(ConformError, match=f"the valid value {fill} "):
            run(np.array([1, 2, fill]), aggregation, _FillValue=np.int64(9))

    @pytest.mark.parametrize("fill", [np.inf, 1e308])
    def test_integers_are_never_a_master_fill_beyond_all_of_them(self, fill):
        aggregation = master(dtype="f8", attributes={"_FillValue": fill})
        assert run(np.array([1, 2, 3]), aggregation, scale_factor=0.1).tolist() == [0.1, 0.2, 3 * 0.1]

    def test_a_value_outside_the_valid_range_may_be_the_masters_fill(self):
        aggregation = master(dtype="i2", attributes={"_FillValue": np.int16(-1)})
        found = run(np.array([-1, -2, 5], "i2"), aggregation, valid_min=np.int16(0), _FillValue=np.int16(9))
        assert found.tolist() == [-1, -1, 5]
        aggregation = master(dtype="i2", attributes={"_FillValue": np.int16(99)})
        found = run(np.array([99, 2, 5], "i2"), aggregation, valid_max=np.int16(90), _FillValue=np.int16(9))
        assert found.tolist() == [99, 2, 5]

    def test_a_missing_value_that_is_unpacked_to_the_masters_fill_is_missing(self):
        aggregation = master(attributes={"_FillValue": -9.0})
        found = run(np.array([1, 2, -18], "i2"), aggregation, scale_factor=0.5, _FillValue=np.int16(-18))
        assert found.tolist() == [0.5, 1.0, -9.0]

    @pytest.mark.parametrize("value", [-0.9, 0.3, 1.0])
    def test_every_valid_value_that_is_rounded_to_the_masters_fill_is_refused(self, value):
        aggregation = master(dtype="i2", attributes={"scale_factor": 2.0, "_FillValue": np.int16(0)})
        with pytest.raises(ConformError, match="the valid value"):
            run(np.array([4.0, value, 8.0]), aggregation)

    def test_a_real_missing_value_in_the_range_of_the_masters_fill_is_missing(self):
        aggregation = master(dtype="i2", attributes={"scale_factor": 2.0, "_FillValue": np.int16(0)})
        assert run(np.array([4.0, 0.25, 8.0]), aggregation, _FillValue=0.25).tolist() == [2, 0, 4]

    def test_a_half_that_is_rounded_away_from_the_masters_fill_is_kept(self):
        aggregation = master(dtype="i2", attributes={"scale_factor": 2.0, "_FillValue": np.int16(1)})
        assert run(np.array([1.0, 3.0, 8.0]), aggregation).tolist() == [0, 2, 4]

    def test_valid_values_beside_those_that_are_rounded_to_the_masters_fill_are_kept(self):
        aggregation = master(dtype="i2", attributes={"scale_factor": 2.0, "_FillValue": np.int16(0)})
        assert run(np.array([-1.1, 1.1, 8.0]), aggregation).tolist() == [-1, 1, 4]

    def test_bounds_of_real_type_on_packed_integers_are_in_unpacked_units(self):
        found = run(np.array([1, 10, 20], "i2"), scale_factor=0.5, valid_range=np.array([1.0, 5.0]))
        np.testing.assert_array_equal(found, [np.nan, 5, np.nan])

    @pytest.mark.parametrize("dtype", ["i2", "i1", "u1"])
    def test_integers_outside_a_valid_range_of_both_stay_where_no_missing_value_is_declared(self, dtype):
        limits = {"valid_range": np.array([2, 9], dtype)}
        assert run(np.array([1, 2, 10], dtype), master(dtype=dtype, attributes=limits), **limits).tolist() == [1, 2, 10]

    def test_reals_outside_a_valid_range_of_both_are_missing_where_only_the_file_declares_a_missing_value(self):
        limits = {"valid_range": np.float32([2, 9])}
        found = run(np.float32([1, 2, np.nan]), master(attributes=limits), **limits, _FillValue=np.float32(np.nan))
        np.testing.assert_array_equal(found, [np.nan, 2, np.nan])

    def test_integers_outside_a_valid_range_are_missing_where_the_master_declares_another_or_a_missing_value(self):
        limits, block = {"valid_range": np.array([2, 9], "i2")}, np.array([1, 2, 10], "i2")
        wider = master(dtype="i2", attributes={"valid_range": np.array([1, 9], "i2")})
        assert run(block, wider, **limits).tolist() == [-32767, 2, -32767]
        assert run(block, master(dtype="i2", attributes={**limits, "_FillValue": np.int16(-1)}), **limits).tolist() == [
            -1,
            2,
            -1,
        ]

    def test_unsigned_fill_is_compared_by_its_bits(self):
        found = run(np.array([1, -1, -2], "i1"), _Unsigned="true", _FillValue=np.int8(-1))
        np.testing.assert_array_equal(found, [1, np.nan, 254])

    def test_unsigned_master_keeps_its_bits(self):
        aggregation = master(dtype="i1", attributes={"_Unsigned": "true", "_FillValue": np.int8(-1)})
        found = run(np.array([200, 7, 3], "i2"), aggregation, _FillValue=np.int16(7))
        assert found.view("u1").tolist() == [200, 255, 3]

    def test_an_attribute_that_is_no_number_is_refused_by_name(self):
        with pytest.raises(ConformError, match=r"partition \(0, 1\).*_FillValue"):
            run(np.array([1, 2, 3], "i2"), _FillValue="none")


class TestValues:
    def test_master_packing_rounds_half_to_even(self):
        aggregation = master(dtype="i2", attributes={"scale_factor": 2.0})
        assert run(np.array([1.0, 3.0, 5.0]), aggregation).tolist() == [0, 2, 2]

    def test_beyond_the_packed_range_is_refused(self):
        aggregation = master(dtype="i2", attributes={"scale_factor": 0.01})
        with pytest.raises(ConformError, match=r"the value 400\.0 at \(2,\).*int16"):
            run(np.array([1.0, 2.0, 400.0]), aggregation)

    def test_fractions_for_an_integer_master_are_refused(self):
        with pytest.raises(ConformError, match=r"value 20 .*293\.15.*without loss"):
            run(np.array([20, 1, 2], "i2"), master(dtype="i2", units="K"), Layout(("x",), units="degC"))

    def test_whole_results_of_a_change_of_units_reach_an_integer_master(self):
        found = run(np.array([1, -2, 3], "i2"), master(dtype="i4", units="m"), Layout(("x",), units="km"))
        assert found.tolist() == [1000, -2000, 3000]

    def test_tenths_that_are_whole_up_to_round_off_reach_an_integer_master(self):
        assert run(np.array([10, 30, 70], "i2"), master(dtype="i4"), scale_factor=0.1).tolist() == [1, 3, 7]

    def test_round_off_of_a_large_offset_is_no_fraction(self):
        block = np.array([-30215, -30015, -29915], "i4")
        assert run(block, master(dtype="i4"), scale_factor=0.01, add_offset=300.15).tolist() == [-2, 0, 1]

    def test_a_fraction_above_round_off_is_refused(self):
        with pytest.raises(ConformError, match="without loss"):
            run(np.array([1 + 2.0**-40, 1, 1]), master(dtype="i4", units="m"), Layout(("x",), units="km"))

    def test_integers_that_are_only_cast_keep_all_their_digits(self):
        values = [2**60 + 1, 3, 2**62 - 1]
        assert run(np.array(values), master(dtype="u8")).tolist() == values

    def test_large_integers_beyond_53_bits_are_not_rounded_silently(self):
        values = np.array([2**53 + 1, 0, 0])
        found = run(values, master(dtype="i8", units="m"), Layout(("x",), units="km"))
        assert found.tolist() == [1000 * (2**53 + 1), 0, 0]
        with pytest.raises(ConformError, match="without loss"):
            run(values, master(dtype="i8"), scale_factor=0.5)

    def test_fractions_cast_to_integers_are_refused(self):
        with pytest.raises(ConformError, match=r"2\.5 at \(1,\)"):
            run(np.array([1.0, 2.5, 3.0]), master(dtype="i4"))

    def test_a_float_beyond_a_shorter_type_is_refused(self):
        with pytest.raises(ConformError, match="float32"):
            run(np.array([1.0, 1e300, 3.0]))

    def test_values_of_another_type_than_the_header_says_are_refused(self):
        recipe = conform.recipe(master(), Layout(("x",)), Header("frag.nc", "tas", ("x",), (3,), "i4"), where=WHERE)
        with pytest.raises(FragmentMismatchError, match=r"float32 were read.* int32"):
            conform.apply(recipe, np.zeros(3, "f4"), np.zeros(3, "f4"), where=WHERE)

    def test_half_precision_is_refused(self):
        with pytest.raises(UnsupportedError, match=r"partition \(0, 1\).*float16"):
            run(np.zeros(3, "f2"))

    def test_text_is_copied(self):
        found = run(np.array([b"a", b"b", b"c"], "S1"), master(dtype="S1"))
        assert found.tolist() == [b"a", b"b", b"c"]

    def test_text_for_a_number_is_refused(self):
        with pytest.raises(FragmentMismatchError, match="cannot be converted to float32"):
            run(np.array([b"a", b"b", b"c"], "S1"))


@pytest.mark.parametrize(("dtype", "wider"), [("U2", "U3"), ("S2", "S3"), ("U2", "S2"), ("S2", "U1"), ("U2", "O")])
def test_texts_that_might_be_cut_are_refused(dtype, wider):
    assert (
        run(np.array(["a", "bc", ""], dtype), master(dtype=dtype)).tolist() == np.array(["a", "bc", ""], dtype).tolist()
    )
    with pytest.raises(FragmentMismatchError, match="cannot be converted to"):
        run(np.array(["a", "bc", ""], wider), master(dtype=dtype))


class TestAxes:
    def test_a_transposed_file_is_noticed_by_its_names(self):
        aggregation = master(("y", "x"), (2, 2))
        with pytest.raises(FragmentMismatchError, match=r"partition \(0, 1\).*\('x', 'y'\).*'dimensions'"):
            run(np.zeros((2, 2), "f4"), aggregation, Layout(("y", "x")), dims=("x", "y"))

    def test_other_names_are_matched_by_order(self):
        aggregation = master(("y", "x"), (2, 3))
        block = np.arange(6, dtype="f4").reshape(3, 2)
        np.testing.assert_array_equal(run(block, aggregation, Layout(("x", "y")), dims=("a", "b")), block.T)

    @pytest.mark.parametrize(("dims", "shape"), [(("x",), (3,)), (("z", "y", "x"), (1, 1, 3))])
    def test_size_one_dimensions_may_be_on_one_side_only(self, dims, shape):
        aggregation = master(("y", "x"), (1, 3))
        found = run(np.arange(3, dtype="f4").reshape(shape), aggregation, Layout(("y", "x")), dims=dims)
        assert found.tolist() == [[0, 1, 2]]

    @pytest.mark.parametrize("shape", [(4,), (2,)])
    def test_a_block_of_another_shape_is_refused(self, shape):
        aggregation = master()
        header = Header("frag.nc", "tas", ("x",), (3,), "f4")
        recipe = conform.recipe(aggregation, Layout(("x",)), header, where=WHERE)
        with pytest.raises(FragmentMismatchError, match=r"partition \(0, 1\).*expected \(3,\)"):
            conform.apply(recipe, np.zeros(shape, "f4"), np.zeros(3, "f4"), where=WHERE)

    def test_an_unspanned_dimension_above_one_is_refused(self):
        with pytest.raises(FragmentMismatchError, match="expected 1"):
            run(np.zeros((2, 3), "f4"), layout=Layout(("z", "x")), dims=("z", "x"))

    def test_a_declared_shape_that_the_file_does_not_have_is_refused(self):
        with pytest.raises(FragmentMismatchError, match=r"\(3,\).*says \(5,\)"):
            run(np.zeros(3, "f4"), layout=Layout(("x",), shape=(5,)))

    def test_axes_flips_and_extra_describe_the_way_from_file_to_master(self):
        aggregation = master(("t", "y", "x"), (1, 2, 3))
        header = Header("frag.nc", "tas", ("x", "z", "y"), (3, 1, 2), "f4")
        recipe = conform.recipe(aggregation, Layout(("x", "z", "y"), (True, False, False)), header, where=WHERE)
        assert (recipe.axes, recipe.flips, recipe.extra) == ((-1, 2, 0), (False, False, True), (1,))


class TestContradictions:
    def test_declared_type(self):
        with pytest.raises(FragmentMismatchError, match=r"float64.*'f4'"):
            run(np.zeros(3), layout=Layout(("x",), dtype="f4"))

    def test_the_unpacked_type_of_a_packed_file_is_accepted(self):
        layout = Layout(("x",), dtype="double")
        assert run(np.array([1, 2, 3], "i2"), layout=layout, scale_factor=0.5).tolist() == [0.5, 1, 1.5]

    def test_declared_packing(self):
        with pytest.raises(FragmentMismatchError, match=r"scale_factor 0\.5.*says 2\.0"):
            run(np.zeros(3, "i2"), layout=Layout(("x",), scale_factor=2.0), scale_factor=0.5)

    def test_packing_that_the_aggregation_repeats_is_applied_once(self):
        layout = Layout(("x",), scale_factor=0.5)
        assert run(np.array([1, 2, 3], "i2"), layout=layout, scale_factor=0.5).tolist() == [0.5, 1, 1.5]

    def test_packing_of_the_aggregation_alone_is_applied(self):
        layout = Layout(("x",), scale_factor=0.5, add_offset=1.0)
        assert run(np.array([1, 2, 3], "i2"), layout=layout).tolist() == [1.5, 2, 2.5]

    def test_declared_units(self):
        with pytest.raises(UnitsError, match=r"partition \(0, 1\).*'K'.*'degC'"):
            run(np.zeros(3, "f4"), master(units="K"), Layout(("x",), units="degC"), units="K")

    def test_a_packing_and_units_beyond_all_numbers_are_refused(self):
        with pytest.raises(ConformError, match=r"partition \(0, 1\): packing and units together exceed"):
            run(np.zeros(3, "i2"), master(units="mm"), Layout(("x",), units="km"), scale_factor=1e305)


class TestUnits:
    @pytest.mark.parametrize("one", [1, 1.0, np.int32(1), np.array(1.0)], ids=repr)
    def test_the_number_1_is_a_unit_and_no_other_number_is(self, one):
        assert run(np.array([1.0, 2, 3]), units=one).tolist() == [1, 2, 3]
        for other in (5 * one, np.array([1, 1])):
            with pytest.raises(UnitsError, match=r"partition \(0, 1\): attribute units = .* is not text"):
                run(np.zeros(3, "f4"), units=other)

    def test_the_files_own_units_count_where_the_aggregation_is_silent(self):
        found = run(np.array([0.0, 1, 2]), master(dtype="f8", units="K"), units="degC")
        np.testing.assert_array_equal(found, [273.15, 274.15, 275.15])

    @pytest.mark.parametrize(
        "attributes",
        [
            {"units_metadata": "temperature: difference"},
            {"cell_methods": "area: mean time: standard_deviation"},
            {"cell_methods": "time: anomaly_wrt climatology"},
            {"standard_name": "air_temperature standard_error"},
            {"standard_name": "air_temperature_anomaly"},
        ],
        ids=str,
    )
    def test_differences_of_temperatures_are_converted_without_an_offset(self, attributes):
        units = "degF"
        for masters, own in ((attributes, {}), ({}, attributes), (attributes, attributes)):
            aggregation = master(dtype="f8", units="K", attributes=masters)
            np.testing.assert_allclose(run(np.array([0.0, 9, 18]), aggregation, units=units, **own), [0, 5, 10])
        aggregation = master(dtype="f8", units="K", attributes={"units_metadata": "temperature: on_scale"})
        with pytest.raises(UnitsError, match=r"frag.nc.*'degF' are on_scale .* and differences"):
            run(np.zeros(3), aggregation, units=units, **attributes)

    def test_other_quantities_than_temperatures_have_no_differences(self):
        deviation = {"cell_methods": "time: standard_deviation", "units_metadata": "temperature: on_scale"}
        aggregation = master(dtype="f8", units="degC", attributes=deviation)
        assert run(np.array([273.15, 0, 1]), aggregation, units="K").tolist()[0] == 0
        aggregation = master(dtype="f8", units="m", attributes={"cell_methods": "time: range"})
        assert run(np.array([1.0, 2, 3]), aggregation, units="km @ 5").tolist() == [6000, 7000, 8000]

    def test_empty_units_are_those_of_a_pure_number(self):
        for own in ({"units": ""}, {"units": "1"}):
            assert run(np.array([0.0, 0.5, 1]), master(dtype="f8", units="%"), **own).tolist() == [0, 50, 100]
            with pytest.raises(UnitsError, match=r"frag\.nc"):
                run(np.zeros(3), master(dtype="f8", units="K"), **own)
        assert run(np.array([0.0, 0.5, 1]), master(dtype="f8", units=""), units="1").tolist() == [0, 0.5, 1]

    def test_a_file_without_units_has_the_masters(self):
        assert run(np.array([0.0, 1, 2]), master(dtype="f8", units="K")).tolist() == [0, 1, 2]

    def test_units_that_do_not_convert_are_refused_by_file_variable_and_partition(self):
        with pytest.raises(UnitsError, match=r"frag.nc, variable tas, partition \(0, 1\).*'m'.*'K'"):
            run(np.zeros(3, "f4"), master(units="K"), units="m")

    def test_a_master_without_units_is_a_pure_number(self):
        assert run(np.array([50.0, 0, 1]), units="%").tolist() == [0.5, 0, np.float32(0.01)]
        with pytest.raises(UnitsError, match="units None"):
            run(np.zeros(3, "f4"), units="K")


class TestTimes:
    def times(self, values, units, calendar, to_units, to_calendar, dtype="f8", masters=None, **attributes):
        aggregation = master(
            shape=(len(values),), dtype=dtype, units=to_units, calendar=to_calendar, attributes=masters
        )
        if calendar:
            attributes["calendar"] = calendar
        return run(np.array(values), aggregation, units=units, **attributes)

    def test_another_epoch_is_an_exact_offset(self):
        found = self.times([0.25, 1e5], "days since 1850-01-01", None, "days since 2000-01-01", "gregorian")
        assert found.tolist() == [-54786 + 0.25, 1e5 - 54786]

    def test_integer_hours_become_integer_days(self):
        args = ("hours since 2000-01-01", "noleap", "days since 2000-02-01", "365_day")
        assert self.times([0, 24], *args, dtype="i4").tolist() == [-31, -30]
        with pytest.raises(ConformError, match="without loss"):
            self.times([0, 25], *args, dtype="i4")

    def test_a_file_without_calendar_has_the_masters(self):
        found = self.times([59.0], "days since 2001-01-01", None, "days since 2000-01-01", "360_day")
        assert found.tolist() == [59 + 360]

    def test_a_calendar_that_the_aggregation_states_is_that_of_a_file_without(self):
        aggregation = master(dtype="f8", units="days since 2000-01-01", calendar="noleap")
        layout = Layout(("x",), units="days since 2001-01-01", calendar="noleap")
        found = run(np.array([0.0, 1, 2]), aggregation, layout, units="days since 2001-1-1 00:00")
        assert found.tolist() == [365, 366, 367]
        with pytest.raises(UnitsError, match="its file has units"):
            run(np.zeros(3), aggregation, layout, units="days since 2001-01-02")
        silent = Layout(("x",), units="days since 2001-01-01")
        assert run(np.zeros(3), aggregation, silent, units=layout.units, calendar="noleap").tolist() == [365] * 3

    @pytest.mark.parametrize("dtype", ["i4", "f8"])
    def test_a_time_that_becomes_the_masters_fill_in_its_calendar_is_refused(self, dtype):
        units = "days since 2000-01-01"
        for masters in ({"_FillValue": -2}, {"missing_value": -2}):
            with pytest.raises(ConformError, match=r"the valid value -1.*would become -2.*, the missing value"):
                self.times(np.array([9, -1], dtype), units, "360_day", units, "noleap", dtype, masters)
        found = self.times(
            np.array([9, -1], dtype), units, "360_day", units, "noleap", dtype, masters, missing_value=-1
        )
        assert found.tolist() == [9, -2]

    @pytest.mark.parametrize(
        ("one", "other", "factor", "shift"),
        [
            ("us since 2000-01-01", "ns since 2000-01-01", 1000, 0),
            ("ns since 2000-01-01", "ns since 2000-01-03", 1, -2 * 86400 * 10**9),
            ("hours since 2000-01-01", "seconds since 2000-01-01 06:00", 3600, -21600),
        ],
    )
    def test_integers_are_converted_to_integers_without_rounding(self, one, other, factor, shift):
        times = np.array([2**50 + 1, -(2**49) - 1, -5])
        there = self.times(times, one, None, other, None, "i8", {"_FillValue": -(2**63)}, _FillValue=-5)
        assert there.tolist() == [*(int(t) * factor + shift for t in times[:2]), -(2**63)]
        assert there.dtype == "i8"
        back = self.times(there, other, None, one, None, "i8", {"_FillValue": -5}, _FillValue=-(2**63))
        assert back.tolist() == times.tolist()
        if factor > 1:
            with pytest.raises(ConformError, match=r"at \(1,\) of the part.* by type int64 without loss \(1 such"):
                self.times(
                    np.add(there, [0, 1, 0]), other, None, one, None, "i8", {"_FillValue": -5}, _FillValue=-(2**63)
                )

    def test_integers_that_do_not_fit_into_the_masters_type_are_refused(self):
        for value in (2**40, -1):
            with pytest.raises(ConformError, match=r"at \(1,\) of the part.* by type uint32 without loss \(1 such"):
                self.times([1, value], "hours since 2000-01-01", None, "s since 2000-01-01", None, "u4")
        far = np.array([2**63 - 1, 2**53 + 1])
        with pytest.raises(ConformError, match="2 such"):
            self.times(far, "us since 2000-01-01", None, "ns since 2000-01-01", None, "i8")
        with pytest.raises(ConformError, match="is a missing value, and the aggregation, of type int64, declares none"):
            self.times([1, 2], "h since 2000-01-01", None, "s since 2000-01-01", None, "i8", missing_value=2)

    def test_a_single_integer_time_is_converted(self):
        aggregation = master((), (), "i4", units="seconds since 2000-01-01")
        assert run(np.array(2), aggregation, units="hours since 2000-01-01").tolist() == 7200

    def test_another_calendar_keeps_the_date(self):
        found = self.times([60.5, np.nan], "days since 2000-01-01", "360_day", "hours since 2000-01-01", "noleap")
        np.testing.assert_array_equal(found, [59.5 * 24, np.nan])

    def test_a_date_that_the_master_lacks_is_named(self):
        with pytest.raises(
            CalendarError, match=r"partition \(0, 1\): the date 2000-02-30 of calendar 360_day.*standard"
        ):
            self.times([0.0, 59.0], "days since 2000-01-01", "360_day", "days since 2000-01-01", None)

    def test_missing_times_become_the_masters_missing_value(self):
        masters = {"_FillValue": np.int32(-1)}
        args = ("days since 2000-01-01", "360_day", "hours since 2000-01-01", "noleap")
        found = self.times([-9, 1], *args, dtype="i4", masters=masters, _FillValue=-9)
        assert found.tolist() == [-1, 24]

    def test_packed_times_are_unpacked_first(self):
        args = ("days since 2000-01-01", "360_day", "days since 2000-01-01", "noleap")
        assert self.times([1, 2], *args, scale_factor=0.5).tolist() == [0.5, 1]

    def test_times_so_large_that_no_fraction_would_show_are_refused_by_an_integer_master(self):
        args = ("days since 2000-01-01", "360_day", "microseconds since 1500-01-01", "noleap")
        with pytest.raises(ConformError, match=r"int64 without loss \(2 such values\)"):
            self.times([0.0, 1.0], *args, dtype="i8")
        args = ("days since 2000-01-01", "360_day", "microseconds since 1999-01-01", "noleap")
        assert self.times([0.0, 1.0], *args, dtype="i8").tolist() == [365 * 86400 * 10**6, 366 * 86400 * 10**6]

    def test_fractions_of_a_unit_are_refused_by_an_integer_master(self):
        args = ("days since 2000-01-01", "360_day", "days since 2000-01-01", "noleap")
        with pytest.raises(ConformError, match="without loss"):
            self.times([1.5], *args, dtype="i4")


@pytest.mark.parametrize(
    ("dtype", "attributes", "fill"),
    [
        ("f4", {"_FillValue": 1e20, "missing_value": 5.0}, float(np.float32(1e20))),
        ("f8", {"missing_value": np.array([-9.0, -8.0])}, -9.0),
        ("f4", {"_FillValue": np.float32(np.inf)}, np.inf),
        ("i2", {}, None),
        ("S1", {"_FillValue": b"x"}, None),
        ("i1", {"_Unsigned": "true", "_FillValue": np.uint8(255)}, -1),
        ("i1", {"_Unsigned": "true", "missing_value": np.int8(-1)}, -1),
        ("i2", {"missing_value": np.int32(70000)}, None),
    ],
)
def test_master_fill(dtype, attributes, fill):
    assert conform.master_fill(master(dtype=dtype, attributes=attributes)) == fill


def test_master_fill_of_real_types_is_nan_where_none_is_declared():
    assert np.isnan(conform.master_fill(master()))


@pytest.mark.parametrize(
    ("dtype", "value"), [("i2", 99999), ("f4", 1e300), ("i2", 0.5), ("i4", np.nan), ("i4", np.inf)]
)
def test_a_master_fill_of_another_type_is_refused(dtype, value):
    with pytest.raises(CfaggError, match=r"agg\.nca, variable tas"):
        conform.master_fill(master(dtype=dtype, attributes={"_FillValue": value}))


@pytest.mark.parametrize(("most", "fill", "expected"), [(10, {}, 20), (100, {}, -32767), (10, {"_FillValue": -1}, -1)])
def test_integers_outside_their_range_stay_if_the_master_has_that_range_and_no_fill_value(most, fill, expected):
    low = {"valid_min": np.int16(0)}
    given = master(shape=(2,), dtype="i2", attributes=low | {"valid_max": np.int16(most)} | fill)
    assert run(np.int16([1, 20]), given, **low, valid_max=np.int16(10), **fill).tolist() == [1, expected]


def test_ranges_of_the_master_in_both_forms_are_no_warning_of_each_sub_array():
    # Every warning is an error here.
    attributes = {"valid_range": np.float32([0, 9]), "valid_min": np.float32(1)}
    found = run(np.float32([1, 2, 3]), master(attributes=attributes))
    np.testing.assert_array_equal(found, [1, 2, 3])
